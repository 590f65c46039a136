package backend

import (
	"errors"
	"testing"
	"time"
)

func TestWithReadTimeout(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:6379",
		"redis://user:p%40ss@127.0.0.1:6379/3?pool_size=7",
		"redis://a:7000,b:7001",
		"redis://a:7000,redis://b:7001",
		"redis://a:7000?protocol=2,redis://b:7001?protocol=2",
		"redis://a:7000?protocol=2,redis://b:7001,redis://c:7002?protocol=2",
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
