package lock

// Token returns the fencing token of the last hold, or 0 before the first. It does
// not change while the lock is held.
//
// The holder must send the token with its first read: if the resource sees it only with
// the write, it still accepts older tokens between the read and the write.
//
// A token is the time of the server's clock, in microseconds, unless a larger token was
// granted before. So the last token need not be kept forever: it expires twice the ttl
// after the last renewal.
//
// Fencing tokens are Martin Kleppmann's answer to holders that go on working after
// their lease has expired ("How to do distributed locking", 2016). Chubby calls such
// a number a sequencer (M. Burrows, OSDI 2006).
func (m *Mutex) Token() int64 { return m.token }

// tokenKey returns the key that stores the last token of the lock at key.
func tokenKey(key string) string { return key + ":token" }
