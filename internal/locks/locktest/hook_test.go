package locktest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// A paused command is not sent if its caller gives up during the pause.
func TestPauseAndCancel(t *testing.T) {
	s := locktest.Start(t)
	pause := locktest.NewPause()
	s.Hook.On(locktest.Any, 1, pause.Before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Client.Set(ctx, "k", "v", 0).Err() }()
	<-pause.Parked()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("SET: %v; want %v", err, context.Canceled)
	}
	pause.Release()
	if s.Exists("k") {
		t.Error("the command was executed")
	}
}

// If a reply arrives after its caller has given up, it is dropped.
func TestLateReplyAndCancel(t *testing.T) {
	s := locktest.Start(t)
	pause := locktest.NewPause()
	s.Hook.On(locktest.Any, 1, pause.After)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *redis.BoolCmd)
	go func() { done <- s.Client.SetNX(ctx, "k", "v", 0) }()
	<-pause.Parked()
	cancel()
	if ok, err := (<-done).Result(); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("SETNX = %v, %v; want false, %v", ok, err, context.Canceled)
	}
	if !s.Exists("k") {
		t.Error("the command was not executed")
	}
}

// EVALSHA, its NOSCRIPT reply and the EVAL that follows count as one run of a script. A fault applies to
// the command that executes the script.
func TestScriptUnknownToRedis(t *testing.T) {
	const source = "return redis.call('INCR', KEYS[1])"
	s := locktest.Start(t)
	script := redis.NewScript(source)
	runs := s.Hook.Count(locktest.Script(source))
	lost := s.Hook.On(locktest.All(locktest.Script(source), locktest.Mentioning("k")), 1,
		locktest.LoseReply(locktest.ErrCut))
	var off *locktest.Rule
	off = s.Hook.On(locktest.Any, -1, func(_ context.Context, send func() error) error {
		defer off.Off() // while its first EVALSHA is in flight
		return send()
	})

	if err := script.Run(t.Context(), s.Client, []string{"other"}).Err(); err != nil {
		t.Error(err)
	}
	backendtest.Must(t, s.Client.ScriptFlush(t.Context()).Err())
	if err := script.Run(t.Context(), s.Client, []string{"k"}).Err(); !errors.Is(err, locktest.ErrCut) {
		t.Errorf("first run: %v; want %v", err, locktest.ErrCut)
	}
	if n, err := script.Run(t.Context(), s.Client, []string{"k"}).Int(); n != 2 || err != nil {
		t.Errorf("second run = %d, %v; want 2", n, err)
	}
	if runs.Hits() != 3 || lost.Hits() != 1 || off.Hits() != 0 {
		t.Errorf("%d runs, %d lost, %d after Off; want 3, 1, 0", runs.Hits(), lost.Hits(), off.Hits())
	}
}

func TestRulesNest(t *testing.T) {
	s := locktest.Start(t)
	tried := s.Hook.Count(locktest.Any)
	rule := s.Hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
	sent := s.Hook.Count(locktest.Any)

	for i := range 3 {
		if i == 2 {
			rule.Off()
		}
		err := s.Client.Set(t.Context(), "k", "v", 0).Err()
		if (err == nil) != (i == 2) {
			t.Errorf("SET %d: %v", i, err)
		}
	}
	if tried.Hits() != 3 || rule.Hits() != 2 || sent.Hits() != 1 {
		t.Errorf("tried %d, failed %d, sent %d; want 3, 2, 1", tried.Hits(), rule.Hits(), sent.Hits())
	}
}

func TestPipeline(t *testing.T) {
	s := locktest.Start(t)
	for _, test := range []struct {
		action locktest.Action
		there  bool
	}{{locktest.Fail(locktest.ErrCut), false}, {locktest.LoseReply(locktest.ErrCut), true}} {
		s.Hook.On(locktest.Command("incr"), 1, test.action)
		var get *redis.StatusCmd
		_, err := s.Client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			get = p.Set(t.Context(), "k", "v", 0)
			p.Incr(t.Context(), "n")
			return nil
		})
		if !errors.Is(err, locktest.ErrCut) || !errors.Is(get.Err(), locktest.ErrCut) {
			t.Errorf("pipeline: %v, its SET: %v; want %v", err, get.Err(), locktest.ErrCut)
		}
		if s.Exists("k") != test.there {
			t.Errorf("key is there: %v; want %v", !test.there, test.there)
		}
	}
}
