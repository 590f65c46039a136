package lock

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed token.lua
	tokenSource string
	tokenScript = redis.NewScript(tokenSource)
)

// Token returns the fencing token of the last turn, or 0 before the first. Only
// TokenAfter changes it while the lock is held.
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
func (m *Mutex) Token() int64 {
	mu.Lock()
	defer mu.Unlock()
	if m.turn == nil {
		return 0
	}
	return m.turn.token
}

// TokenAfter gives the turn a token larger than seen. Call it when the resource has
// refused the turn's token because it had seen a larger one. If the holder has lost the
// lock, the resource was right, and TokenAfter returns ErrLost. Otherwise the tokens
// have become smaller, because Redis lost its data or its clock was set back. Only the
// resource knows how large they were before.
func (m *Mutex) TokenAfter(ctx context.Context, seen int64) (int64, error) {
	mu.Lock()
	t := m.turn
	mu.Unlock()
	if t == nil {
		return 0, ErrNotHeld
	}
	h := t.hold
	token, err := tokenScript.Run(ctx, h.rdb, []string{h.key, h.keys()[3]}, h.ticket, h.ttl.Milliseconds(), seen,
		maxPasses+1).Int64()
	if err != nil {
		return 0, fmt.Errorf("lock: asking for a token after %d: %w", seen, err)
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case h.over() || t.cause != nil:
		return 0, t.cause
	case token == 0:
		return 0, ErrLost
	}
	h.first, t.token = token-int64(h.passes), token
	return token, nil
}

// token returns the current holder's token. Each holder in one hold has its own token.
// The caller must hold mu.
func (h *hold) token() int64 { return h.first + int64(h.passes) }
