package lockbench_test

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"oversell/internal/bench/lockbench"
	"oversell/internal/catalog"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*lockbench.Config)
		want   error
	}{
		"as it is":             {func(*lockbench.Config) {}, nil},
		"no Redis":             {func(c *lockbench.Config) { c.RedisURL = "" }, lockbench.ErrConfig},
		"no command":           {func(c *lockbench.Config) { c.Command = nil }, lockbench.ErrConfig},
		"fewer than processes": {func(c *lockbench.Config) { c.Contenders, c.Processes = 3, 4 }, lockbench.ErrConfig},
		"too many":             {func(c *lockbench.Config) { c.Contenders = lockbench.MaxContenders + 1 }, lockbench.ErrConfig},
		"too many processes":   {func(c *lockbench.Config) { c.Processes = lockbench.MaxProcesses + 1 }, lockbench.ErrConfig},
		"a pool of -1":         {func(c *lockbench.Config) { c.Pool = -1 }, lockbench.ErrConfig},
		"a short ttl":          {func(c *lockbench.Config) { c.TTL = time.Millisecond }, lockbench.ErrConfig},
		"a long wait":          {func(c *lockbench.Config) { c.Wait = 2 * time.Hour }, lockbench.ErrConfig},
		"unknown name":         {func(c *lockbench.Config) { c.Names = []string{"v9"} }, catalog.ErrName},
		"killing the only one": {func(c *lockbench.Config) { c.Fault.Kill = true }, lockbench.ErrConfig},
		"a negative stop":      {func(c *lockbench.Config) { c.Processes, c.Fault.Stop = 2, -1 }, lockbench.ErrConfig},
		"a stop too short":     {func(c *lockbench.Config) { c.Processes, c.Fault.Stop = 2, time.Millisecond }, lockbench.ErrConfig},
		"disturbed too late": {func(c *lockbench.Config) {
			c.Processes, c.Fault = 2, lockbench.Fault{Kill: true, After: 1}
		}, lockbench.ErrConfig},
		"one of two": {func(c *lockbench.Config) { c.Processes, c.Fault.Kill = 2, true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := lockbench.Config{RedisURL: "redis://127.0.0.1:1", Command: func() (*exec.Cmd, error) { return nil, nil }}
			test.change(&c)
			if err := c.WithDefaults().Check(); !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestContendersHaveTheirOwnNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range lockbench.Contenders() {
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
