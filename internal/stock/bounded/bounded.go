// Package bounded takes units from a stock in Redis, and puts them back, without a script. It
// needs INCREX, which adds to a number unless the result would be out of its bounds, and SET
// IFEQ, which writes over a value only if it is still the one that was read: Redis 8.8 or
// Valkey 9.2.
//
// No script means that nothing can depend on what a command has found. So Take learns in the
// same transaction whether the stock was the right one, and cannot take it back if it was not:
// whoever writes the order must check the generation once more. And a claim on an idempotency
// key is a step of its own, before the units.
package bounded

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stock is where the units of one generation of a sale are.
type Stock struct {
	Units string // the key of the units left, a number
	Sale  string // the key of the generation that is current

	Generation string // the value of Sale while Units may be sold
}

// Answer is what one buyer gets.
type Answer struct {
	Taken bool  // the units are taken
	Left  int64 // the units left after that, or too few of them
	// Ended means that nothing is taken, and that Left says nothing: another generation is
	// current, or the stock does not exist.
	Ended bool
}

// Take takes units for each buyer in its turn, if enough are left for it. It is one step for
// all buyers. After an error the units may be taken, with only the reply lost: Take must not be
// repeated.
//
// INCREX takes a key that does not exist for 0, and refuses: to a buyer that looks like a stock
// that is sold out. So the keys are read in the same transaction, and a refusal counts only if
// the stock is there and its generation is current. Units that were taken count in any case. If
// their generation has ended, their order is refused by the database, and the next generation
// was counted without them.
func Take(ctx context.Context, rdb redis.UniversalClient, s Stock, wanted []int64) ([]Answer, error) {
	taken := make([]*redis.IncrEXIntCmd, len(wanted))
	var now *redis.SliceCmd
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i, n := range wanted {
			taken[i] = p.IncrEXInt(ctx, s.Units, redis.IncrEXIntArgs{By: -n, HasBy: true, LBound: 0, HasLBound: true})
		}
		now = p.MGet(ctx, s.Sale, s.Units)
		return nil
	})
	if err != nil {
		return nil, err
	}
	values := now.Val()
	current := values[0] == s.Generation && values[1] != nil
	answers := make([]Answer, len(wanted))
	for i, cmd := range taken {
		got := cmd.Val()
		answers[i] = Answer{Taken: got.AppliedIncrement != 0, Left: max(0, got.Value)}
		answers[i].Ended = !answers[i].Taken && !current
	}
	return answers, nil
}

const (
	// putBackTries bounds how often PutBack starts again because the stock has changed
	// between its two commands.
	putBackTries = 64
	// putBackDelay is how long it sleeps in between, once that has happened often.
	putBackDelay = time.Millisecond
)

// ErrContended means that others changed the stock each time that PutBack was about to.
var ErrContended = errors.New("the stock keeps changing")

// PutBack puts units back into the stock that they were taken from. If that does not exist it
// does nothing. It returns ErrContended, and nothing is put back. After any other error the
// units may be back, with only the reply lost.
//
// INCREX would create a stock that does not exist, and with it a generation that has ended. So
// the number is read, and written if it is still the same.
func PutBack(ctx context.Context, rdb redis.UniversalClient, units string, n int64) error {
	for try := range putBackTries {
		text, err := rdb.Get(ctx, units).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		left, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the stock is not a number: %w", err)
		}
		err = rdb.SetIFEQ(ctx, units, left+n, text, redis.KeepTTL).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if try > putBackTries/2 {
			time.Sleep(putBackDelay)
		}
	}
	return ErrContended
}

// Claims are the claims on idempotency keys: two hashes with a field for each key.
type Claims struct {
	Now, Last string        // the keys of this period's hash and the last one's
	Kept      time.Duration // how long claims are kept after the last one
}

// Claim claims each idempotency key that nobody has claimed, and reports which those are. After
// an error any of them may be claimed.
func (c Claims) Claim(ctx context.Context, rdb redis.UniversalClient, keys []string) (won []bool, err error) {
	claimed, before := make([]*redis.BoolCmd, len(keys)), make([]*redis.BoolCmd, len(keys))
	_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			before[i] = p.HExists(ctx, c.Last, key)
			claimed[i] = p.HSetNX(ctx, c.Now, key, "")
		}
		p.PExpire(ctx, c.Now, c.Kept)
		return nil
	})
	if err != nil {
		return nil, err
	}
	won = make([]bool, len(keys))
	var twice []string // claimed just now, and by somebody else in the last period
	for i, key := range keys {
		won[i] = claimed[i].Val() && !before[i].Val()
		if claimed[i].Val() && before[i].Val() {
			twice = append(twice, key)
		}
	}
	if len(twice) > 0 {
		// A claim that cannot be removed lasts for longer than that of its owner, and ends too.
		_ = rdb.HDel(ctx, c.Now, twice...).Err()
	}
	return won, nil
}

// Release releases claims that were won.
func (c Claims) Release(ctx context.Context, rdb redis.UniversalClient, keys []string) error {
	return rdb.HDel(ctx, c.Now, keys...).Err()
}
