package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/lab/search"
	v1 "oversell/internal/locks/v1_setnx"
	v4 "oversell/internal/locks/v4_lua"
)

// The search finds flaws that no anomaly of the table shows, because they need a fault and
// then something else in the path that handles it.
func TestSearchFindsWhatTheTableMisses(t *testing.T) {
	for _, m := range []struct {
		what, stage string
		lock        func(p *lab.Process, key string) guard.Lock
		faults      search.Faults
		goal        search.Goal
	}{
		{"v4 that takes the expiry off a lock whose reply got lost, until it has released it", "v4_lua",
			func(p *lab.Process, key string) guard.Lock {
				return keeping{v4.New(p.Redis(), key, p.TTL()), p.Redis(), key}
			}, search.Faults{Kills: 1, Losses: 1}, search.Stuck},
		{"v4 that looks before it deletes a lock whose reply got lost", "v4_lua",
			func(p *lab.Process, key string) guard.Lock {
				return &looking{rdb: p.Redis(), key: key, ttl: p.TTL()}
			}, search.Faults{Losses: 1}, search.ForeignDelete},
		{"v1 that releases once more when a reply got lost", "v1_setnx",
			func(p *lab.Process, key string) guard.Lock {
				return repeating{v1.New(p.Redis(), key)}
			}, search.Faults{Losses: 1}, search.ForeignDelete},
	} {
		t.Run(m.what, func(t *testing.T) {
			c := subjectOf(m.stage, m.lock)
			if r := try(t, []lab.Subject{c}, exitExpected, "-strategy", m.stage); len(r.Unexpected()) > 0 {
				t.Errorf("the table shows it: %v", r.Unexpected())
			}
			r, err := search.Search(t.Context(), search.Config{Subject: c, Buyers: 2, Faults: m.faults})
			if err != nil {
				t.Fatal(err)
			}
			if r.Breaks[m.goal] == "" {
				t.Errorf("%s is not found in %d states: %v", m.goal, r.States, r.Breaks)
			}
			t.Logf("%s by %s, of %d states", m.goal, r.Breaks[m.goal], r.States)
			record, err := search.Recorded()
			if err != nil {
				t.Fatal(err)
			}
			if before, ok := record.Find(m.stage, 2); !ok || before.Breaks[m.goal] != "" {
				t.Errorf("of %s itself is on record: %+v", m.stage, before)
			}
		})
	}
}

// keeping takes the expiry off the lock if it does not know whether it has it, so that it
// does not expire before it is released.
type keeping struct {
	*v4.Mutex
	rdb redis.Cmdable
	key string
}

func (k keeping) TryLock(ctx context.Context) (bool, error) {
	ok, err := k.Mutex.TryLock(ctx)
	if err != nil {
		ctx := context.WithoutCancel(ctx)
		k.rdb.Persist(ctx, k.key)
		k.rdb.Exists(ctx, k.key) // is there anything to release?
	}
	return ok, err
}

// looking is v4 as long as nothing gets lost. It releases by two commands a lock of which
// it does not know whether it has it.
type looking struct {
	rdb   redis.Cmdable
	key   string
	ttl   time.Duration
	token string
	lost  bool
}

func (l *looking) TryLock(ctx context.Context) (bool, error) {
	token := uuid.NewString()
	ok, err := l.rdb.SetNX(ctx, l.key, token, l.ttl).Result()
	if l.lost = err != nil; ok || l.lost {
		l.token = token
	}
	return ok, err
}

var compareAndDelete = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func (l *looking) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if !l.lost {
		n, err := compareAndDelete.Run(ctx, l.rdb, []string{l.key}, l.token).Int()
		return released(n, err)
	}
	switch token, err := l.rdb.Get(ctx, l.key).Result(); {
	case err == redis.Nil || err == nil && token != l.token:
		return v4.ErrNotHeld
	case err != nil:
		return err
	}
	n, err := l.rdb.Del(ctx, l.key).Result()
	return released(int(n), err)
}

func released(n int, err error) error {
	if err == nil && n == 0 {
		err = v4.ErrNotHeld
	}
	return err
}

// repeating releases again what it may have released.
type repeating struct{ *v1.Mutex }

func (r repeating) Unlock(ctx context.Context) error {
	err := r.Mutex.Unlock(ctx)
	if err != nil {
		err = r.Mutex.Unlock(ctx)
	}
	return err
}
