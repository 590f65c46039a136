package lock

// Token returns the fencing token of the last hold, and 0 before the first. It never
// changes while the lock is held.
//
// The resource has to see it at the read already: one that the next holder shows
// only with its write leaves the time before that unguarded.
//
// Tokens are the server's clock, in microseconds, unless a larger one was given
// out already. So the last one need not be kept for ever: it goes twice the ttl
// after the last renewal.
//
// Fencing tokens are Martin Kleppmann's answer to leases that outlive their
// holder's patience ("How to do distributed locking", 2016); the number itself is
// what Chubby calls a sequencer (M. Burrows, OSDI 2006).
func (m *Mutex) Token() int64 { return m.token }
