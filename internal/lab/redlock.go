package lab

import (
	"oversell/internal/locks"
	"oversell/internal/locks/redlock"
)

// newRedlock makes the stage's own lock. What the shop adds, another try where too
// few nodes answered, is left to whoever waits.
func newRedlock(p *Process, key string) locks.Lock {
	return redlock.New(p.Nodes(), key, p.w.TTL)
}
