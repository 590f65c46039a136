package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSingleAddr(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:6379":                     "127.0.0.1:6379",
		"redis:// 127.0.0.1:6379":                    "127.0.0.1:6379",
		"redis://[::1]:7000/2":                       "[::1]:7000",
		"redis://:a,b@127.0.0.1:7000":                "127.0.0.1:7000",
		"redis://u@x:p%40%2F@h:7000/3?pool_size=7":   "h:7000",
		"redis://h:7000?client_name=redis%3A%2F%2Fx": "h:7000",
	} {
		t.Run(url, func(t *testing.T) {
			got, err := SingleAddr(url)
			if got != want || err != nil {
				t.Fatalf("the address is %q, %v; want %q", got, err, want)
			}
			checkLedTo(t, url, "127.0.0.1:1")
			checkLedTo(t, url, "[::1]:1")
		})
	}
}

// checkLedTo checks that WithAddr replaces the address of a URL and nothing else.
func checkLedTo(t *testing.T, url, addr string) {
	t.Helper()
	there, err := WithAddr(url, addr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SingleAddr(there); got != addr || err != nil {
		t.Errorf("%s leads to %q, %v; want %q", there, got, err, addr)
	}
	checkMeans(t, url, there)
}

// checkMeans checks that two URLs have the same settings, except for an address and a timeout.
func checkMeans(t *testing.T, before, after string) {
	t.Helper()
	meaning := func(url string) string {
		target := mustParse(t, url)
		o := target.options
		return fmt.Sprintf("user %q, password %q, db %d, pool %d, client %q, protocol %d, master %q of %d addresses",
			o.Username, o.Password, o.DB, o.PoolSize, o.ClientName, o.Protocol, target.master, len(target.addrs))
	}
	if was, is := meaning(before), meaning(after); was != is {
		t.Errorf("%s means %s, and %s meant %s", after, is, before, was)
	}
}

func mustParse(t *testing.T, url string) *redisTarget {
	t.Helper()
	target, err := parseRedisURL(url)
	if err != nil {
		t.Fatalf("%s is no URL: %v", url, err)
	}
	return target
}

func TestAddrOfWhatIsNoSingleRedis(t *testing.T) {
	for url, want := range map[string]error{
		"rediss://:secret@h:1":            ErrNotSingle,
		"redis://:secret@a:1,b:2":         ErrNotSingle,
		"redis+sentinel://a:1/name":       ErrNotSingle,
		"redis://u:secret@h":              ErrSpec, // a port is always required
		"redis://u:secret/word@127.0.0.1": ErrSpec,
		"embedded":                        ErrSpec,
	} {
		for _, do := range map[string]func() (string, error){
			"SingleAddr": func() (string, error) { return SingleAddr(url) },
			"WithAddr":   func() (string, error) { return WithAddr(url, "h:1") },
		} {
			if got, err := do(); got != "" || !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %q, %v; want %v without the password", url, got, err, want)
			}
		}
	}
	if _, err := WithAddr("redis://h:1", "nowhere"); !errors.Is(err, ErrSpec) {
		t.Errorf("leading to nowhere: %v, want %v", err, ErrSpec)
	}
}

func TestWithReadTimeout(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:6379",
		"redis://user:p%40ss@127.0.0.1:6379/3?pool_size=7",
		"redis://a:7000,b:7001",
		"redis://a:7000,b:7001?protocol=2",
		"redis+sentinel://a:26379,b:26379/mymaster/1",
		"redis://127.0.0.1:6379?read_timeout=3s",
	} {
		t.Run(url, func(t *testing.T) {
			with, err := WithReadTimeout(url, 3*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := mustParse(t, with).options.ReadTimeout; got != 3*time.Second {
				t.Errorf("read timeout of %s is %v, want 3s", with, got)
			}
			checkMeans(t, url, with)
		})
	}
	if _, err := WithReadTimeout("nonsense", time.Second); !errors.Is(err, ErrSpec) {
		t.Errorf("a wrong URL gives %v, want ErrSpec", err)
	}
}
