package lock

// Token returns the fencing token of the last hold, or 0 before the first. It does
// not change while the lock is held.
//
// The holder must send it with its first read: a resource that first sees it with
// the write still accepts older tokens between the two.
//
// A token is the server's clock, in microseconds, unless a larger one was granted
// before. So the last one need not be kept forever: it expires twice the ttl after
// the last renewal.
//
// Fencing tokens are Martin Kleppmann's answer to holders that go on working after
// their lease has expired ("How to do distributed locking", 2016). Chubby calls such
// a number a sequencer (M. Burrows, OSDI 2006).
func (m *Mutex) Token() int64 { return m.token }

// tokenKey returns the key that stores the last token of the lock at key.
func tokenKey(key string) string { return key + ":token" }
