package backend

import (
	"errors"
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

// checkLedTo checks that replacing the address of a URL changes nothing else.
func checkLedTo(t *testing.T, url, addr string) {
	t.Helper()
	there, err := WithAddr(url, addr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SingleAddr(there); got != addr || err != nil {
		t.Errorf("%s leads to %q, %v; want %q", there, got, err, addr)
	}
	before, after := mustParse(t, url).options, mustParse(t, there).options
	if after.Username != before.Username || after.Password != before.Password || after.DB != before.DB ||
		after.PoolSize != before.PoolSize || after.ClientName != before.ClientName {
		t.Errorf("%s means %+v, and %s meant %+v", there, after, url, before)
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
		"redis://u:secret@h":              ErrSpec, // as everywhere: a port is required
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
			before, err := parseRedisURL(url)
			if err != nil {
				t.Fatal(err)
			}
			with, err := WithReadTimeout(url, 3*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			after, err := parseRedisURL(with)
			if err != nil {
				t.Fatalf("%s is no URL: %v", with, err)
			}
			if after.options.ReadTimeout != 3*time.Second {
				t.Errorf("read timeout of %s is %v, want 3s", with, after.options.ReadTimeout)
			}
			if len(after.addrs) != len(before.addrs) || after.master != before.master ||
				after.options.DB != before.options.DB || after.options.Password != before.options.Password ||
				after.options.Protocol != before.options.Protocol {
				t.Errorf("%s means %+v, and %s meant %+v", with, after, url, before)
			}
		})
	}
	if _, err := WithReadTimeout("nonsense", time.Second); !errors.Is(err, ErrSpec) {
		t.Errorf("a wrong URL gives %v, want ErrSpec", err)
	}
}
