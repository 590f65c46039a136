package cache

import (
	"sync"
	"time"
)

// misses bounds what reads of values that do not exist leave in Redis. Anybody can make
// up keys, and each key costs Redis a marker, and for some locks more than that. So at
// most limit keys at a time may leave something: those that are being read, and those
// that were found not to exist within the last stay. It is safe for concurrent use.
type misses struct {
	limit int
	stay  time.Duration

	mu    sync.Mutex
	keys  map[string]*miss
	ended []due // keys that nobody reads, each once
}

// miss is a key that may leave something in Redis.
type miss struct {
	readers int
	until   time.Time // when nothing is left of it, if nobody reads it
	queued  bool      // it is in ended
}

// due says when to look whether a key can be forgotten.
type due struct {
	key string
	at  time.Time
}

func newMisses(limit int, stay time.Duration) *misses {
	return &misses{limit: limit, stay: stay, keys: make(map[string]*miss)}
}

// enter reports whether a reader may leave something for a key. If so, leave must be
// called in the end.
func (m *misses) enter(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(time.Now())
	k, known := m.keys[key]
	switch {
	case !known && len(m.keys) >= m.limit:
		return false
	case !known:
		k = new(miss)
		m.keys[key] = k
	}
	k.readers++
	return true
}

// leave ends what enter began. A key whose value exists does not count any longer.
func (m *misses) leave(key string, exists bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[key]
	k.readers--
	if !exists {
		k.until = time.Now().Add(m.stay)
	}
	switch {
	case k.readers > 0 || k.queued:
	case k.until.IsZero(): // it was never missing
		delete(m.keys, key)
	default:
		m.queue(key, k)
	}
}

// queue has a key forgotten in its time. The caller has locked mu.
func (m *misses) queue(key string, k *miss) {
	k.queued = true
	m.ended = append(m.ended, due{key, k.until})
}

// forget drops the keys of which nothing is left. The caller has locked mu.
func (m *misses) forget(now time.Time) {
	for len(m.ended) > 0 && !m.ended[0].at.After(now) {
		key := m.ended[0].key
		m.ended = m.ended[1:]
		k := m.keys[key]
		k.queued = false
		switch {
		case k.readers > 0: // leave queues it
		case k.until.After(now): // it was read again
			m.queue(key, k)
		default:
			delete(m.keys, key)
		}
	}
}
