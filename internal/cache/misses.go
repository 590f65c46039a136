package cache

import (
	"sync"
	"time"
)

// misses bounds what reads of missing values leave in Redis. Anybody can make up keys, and
// each key costs Redis a marker, and with some locks more. So at most limit keys at a time
// may leave something: those that are being read, and those that were found missing within
// the last stay. It is safe for concurrent use.
type misses struct {
	limit int
	stay  time.Duration

	mu    sync.Mutex
	keys  map[string]*miss
	ended []due // keys without readers, each once
}

// miss is a key that may leave something in Redis.
type miss struct {
	readers int
	until   time.Time // when its marker has expired; zero: it was never missing
	queued  bool      // it is in ended
}

// due is when to check whether a key can be forgotten.
type due struct {
	key string
	at  time.Time
}

func newMisses(limit int, stay time.Duration) *misses {
	return &misses{limit: limit, stay: stay, keys: make(map[string]*miss)}
}

// enter reports whether a reader of a key may leave something in Redis. If so, the caller
// must call leave.
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

// leave ends a read that enter has allowed. A key whose value exists no longer counts.
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

// queue schedules a key to be forgotten. The caller has locked mu.
func (m *misses) queue(key string, k *miss) {
	k.queued = true
	m.ended = append(m.ended, due{key, k.until})
}

// forget drops the keys that have nothing left in Redis. The caller has locked mu.
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
