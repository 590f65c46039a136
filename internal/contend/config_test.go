package contend_test

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"oversell/internal/contend"
	"oversell/internal/locks"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*contend.Config)
		want   error
	}{
		"as it is":             {func(*contend.Config) {}, nil},
		"no Redis":             {func(c *contend.Config) { c.RedisURL = "" }, contend.ErrConfig},
		"no command":           {func(c *contend.Config) { c.Command = nil }, contend.ErrConfig},
		"fewer than processes": {func(c *contend.Config) { c.Contenders, c.Processes = 3, 4 }, contend.ErrConfig},
		"too many":             {func(c *contend.Config) { c.Contenders = contend.MaxContenders + 1 }, contend.ErrConfig},
		"too many processes":   {func(c *contend.Config) { c.Processes = contend.MaxProcesses + 1 }, contend.ErrConfig},
		"a pool of -1":         {func(c *contend.Config) { c.Pool = -1 }, contend.ErrConfig},
		"a short ttl":          {func(c *contend.Config) { c.TTL = time.Millisecond }, contend.ErrConfig},
		"a long wait":          {func(c *contend.Config) { c.Wait = 2 * time.Hour }, contend.ErrConfig},
		"unknown name":         {func(c *contend.Config) { c.Names = []string{"v9"} }, locks.ErrName},
		"killing the only one": {func(c *contend.Config) { c.Disturb.Kill = true }, contend.ErrConfig},
		"a negative stop":      {func(c *contend.Config) { c.Processes, c.Disturb.Stop = 2, -1 }, contend.ErrConfig},
		"a stop too short":     {func(c *contend.Config) { c.Processes, c.Disturb.Stop = 2, time.Millisecond }, contend.ErrConfig},
		"disturbed too late": {func(c *contend.Config) {
			c.Processes, c.Disturb = 2, contend.Disturb{Kill: true, After: 1}
		}, contend.ErrConfig},
		"one of two": {func(c *contend.Config) { c.Processes, c.Disturb.Kill = 2, true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := contend.Config{RedisURL: "redis://127.0.0.1:1", Command: func() (*exec.Cmd, error) { return nil, nil }}
			test.change(&c)
			if err := c.WithDefaults().Check(); !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestContendersHaveTheirOwnNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range contend.Contenders() {
		if seen[c.Name] || c.Name == "" || c.Waits == "" || c.About == "" || c.Make == nil {
			t.Errorf("contender %q is there twice, or not complete", c.Name)
		}
		seen[c.Name] = true
	}
	for _, name := range []string{
		"v1_setnx+line:2ms", "v6_watchdog+backoff:1ms-64ms", "v7_queue", "redsync", "redsync:best", "redislock",
		"redislock:best", "rueidislock", "rueidislock:best", "mutex+setnx", "mutex+bare",
	} {
		if !seen[name] {
			t.Errorf("no contender %q", name)
		}
	}
}
