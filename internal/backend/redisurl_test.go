package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestParseRedisURL(t *testing.T) {
	for _, tt := range []struct {
		spec     string
		addrs    string
		cluster  bool
		master   string
		tls      bool
		user     string
		password string
		db       int
	}{
		{spec: "redis://h:1", addrs: "h:1"},
		{spec: "localhost:6379", addrs: "localhost:6379"},
		{spec: "a:1,b:2", addrs: "a:1 b:2", cluster: true},
		{spec: "redis://h:1/", addrs: "h:1"},
		{spec: "redis://[::1]:1/2", addrs: "[::1]:1", db: 2},
		{spec: "redis://u:p@h:1/2", addrs: "h:1", user: "u", password: "p", db: 2},
		{spec: "redis://:p@h:1?db=3", addrs: "h:1", password: "p", db: 3},
		{spec: "redis://u:p%40%2F,q@h:1", addrs: "h:1", user: "u", password: "p@/,q"},
		{spec: "rediss://h:1?skip_verify=true", addrs: "h:1", tls: true},
		{spec: "redis://a:1,b:2,c:3", addrs: "a:1 b:2 c:3", cluster: true},
		{spec: "redis://a:1, b:2", addrs: "a:1 b:2", cluster: true},
		{spec: "redis://a:1,redis://b:2", addrs: "a:1 b:2", cluster: true},
		{spec: "rediss://:p@a:1,b:2", addrs: "a:1 b:2", cluster: true, tls: true, password: "p"},
		{spec: "redis+sentinel://a:1,b:2/name", addrs: "a:1 b:2", master: "name"},
		{spec: "redis+sentinel://u:p@a:1/name/4", addrs: "a:1", master: "name", user: "u", password: "p", db: 4},
		{spec: "rediss+sentinel://a:1/name", addrs: "a:1", master: "name", tls: true},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			o := mustParse(t, tt.spec)
			if !slices.Equal(o.Addrs, strings.Fields(tt.addrs)) || o.IsClusterMode != tt.cluster ||
				o.MasterName != tt.master {
				t.Errorf("addrs %q, cluster %t, master %q", o.Addrs, o.IsClusterMode, o.MasterName)
			}
			if o.Username != tt.user || o.Password != tt.password || o.DB != tt.db || (o.TLSConfig != nil) != tt.tls {
				t.Errorf("user %q, password %q, db %d, tls %t", o.Username, o.Password, o.DB, o.TLSConfig != nil)
			}
		})
	}
}

func TestParseRedisURLSentinelPassword(t *testing.T) {
	o := mustParse(t, "redis+sentinel://:data@a:1/name?sentinel_username=s&sentinel_password=w")
	if o.SentinelUsername != "s" || o.SentinelPassword != "w" || o.Password != "data" {
		t.Errorf("sentinel %q %q, data %q", o.SentinelUsername, o.SentinelPassword, o.Password)
	}
}

func TestParseRedisURLRefuses(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{"", "it is empty"},
		{"embeded", `unknown word "embeded"`},
		{"u:secret@localhost:6379", "no scheme"},
		{"localhost:port", "no scheme"},
		{"http://h:1", `unknown scheme "http"`},
		{"unix:///run/redis.sock", `unknown scheme "unix"`},
		{"redis://", "address 1 is not host:port"},
		{"redis://h", "address 1 needs a port"},
		{"redis://h:0", "address 1 needs a port"},
		{"redis://h:70000", "address 1 needs a port"},
		{"redis://:secretword", "address 1 is not host:port"},
		{"redis://a:1,,b:2", "address 2 is not host:port"},
		{"redis://a:1,", "address 2 is not host:port"},
		{"redis://a:1,rediss://b:2", "as in redis://a:7000,b:7001"},
		{"redis://a:1,redis://u:secret@b:2", "redis://"},
		{"redis://a:1,b:2/3", "only database 0"},
		{"redis://h:1/x", `invalid database number: "x"`},
		{"redis://h:1?no=1", "unexpected option: no"},
		{"redis://h:1?max_retries=3", "max_retries"},
		{"redis://u:secret/word@h:1", "write the characters"},
		{"redis://u:secret%zzword@h:1", "percent-encoded"},
		{"redis+sentinel://h:1", "name of the sentinels' master"},
		{"redis+sentinel://h:1/name/x", "invalid database number"},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			_, err := parseRedisURL(tt.spec)
			if !errors.Is(err, ErrSpec) {
				t.Fatalf("error %v is not ErrSpec", err)
			}
			checkMessage(t, err, tt.want)
		})
	}
}

// checkMessage checks that the error is one line, says what is wrong and what is allowed, and contains
// none of the passwords in these tests.
func checkMessage(t *testing.T, err error, want string) {
	t.Helper()
	msg := err.Error()
	if !strings.Contains(msg, want) || !strings.Contains(msg, "want embedded, local, ") || strings.Contains(msg, "\n") {
		t.Errorf("message %q, want one line with %q and what is allowed", msg, want)
	}
	if strings.Contains(msg, "secret") {
		t.Errorf("message %q repeats the password", msg)
	}
}

func FuzzParseRedisURL(f *testing.F) {
	for _, seed := range []string{
		"embedded", "redis://u:p@h:1/2?read_timeout=1s", "redis://a:1,b:2",
		"redis+sentinel://a:1,b:2/name/3?sentinel_password=x",
		"rediss://[::1]:1", "redis://%", "redis:///?%zz", "redis://a:1#",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		o, err := parseRedisURL(spec)
		if err != nil {
			if !errors.Is(err, ErrSpec) {
				t.Errorf("error %v is not ErrSpec", err)
			}
			return
		}
		if len(o.Addrs) == 0 || slices.Contains(o.Addrs, "") {
			t.Errorf("addresses %q", o.Addrs)
		}
		if o.IsClusterMode && o.MasterName != "" {
			t.Error("both a cluster and a sentinel set")
		}
		if _, err := SingleAddr(spec); err == nil {
			checkLedTo(t, spec, "127.0.0.1:1")
		}
		// A client can be created from every URL that is accepted.
		if err := newRedis(o, 1, nil).Close(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzRedisURLKeepsPassword puts arbitrary passwords into URLs with a mistake elsewhere, or in which the
// password itself is the mistake. No error contains the password.
func FuzzRedisURLKeepsPassword(f *testing.F) {
	for _, seed := range []string{
		"hunter2hunter2", "with/slash", "with@at", "with:colon", "with%zzescape", "with?query", "with,comma",
		"with#hash",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, password string) {
		const marker = "XYZZY" // not part of any message
		password = marker + password + marker
		for _, spec := range []string{
			"redis://u:" + password + "@h:1?no=1",
			"redis://u:" + password + "@h",
			"redis+sentinel://u:" + password + "@h:1",
			password + "@h:1",
		} {
			if _, err := parseRedisURL(spec); err != nil && strings.Contains(err.Error(), marker) {
				t.Errorf("%q: message %q", spec, err)
			}
		}
	})
}

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
		o := mustParse(t, url)
		return fmt.Sprintf("user %q, password %q, db %d, pool %d, client %q, protocol %d, master %q of %d addresses",
			o.Username, o.Password, o.DB, o.PoolSize, o.ClientName, o.Protocol, o.MasterName, len(o.Addrs))
	}
	if was, is := meaning(before), meaning(after); was != is {
		t.Errorf("%s means %s, and %s meant %s", after, is, before, was)
	}
}

func mustParse(t *testing.T, url string) *redis.UniversalOptions {
	t.Helper()
	o, err := parseRedisURL(url)
	if err != nil {
		t.Fatalf("%s is no URL: %v", url, err)
	}
	return o
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
		"redis://127.0.0.1:6379?read_timeout=&read_timeout=3s",
		"redis://127.0.0.1:6379?read_timeout=1s&read_timeout=", // the last one counts, and it is empty
	} {
		t.Run(url, func(t *testing.T) {
			with, err := WithReadTimeout(url, 3*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := mustParse(t, with).ReadTimeout; got != 3*time.Second {
				t.Errorf("read timeout of %s is %v, want 3s", with, got)
			}
			checkMeans(t, url, with)
		})
	}
	if _, err := WithReadTimeout("nonsense", time.Second); !errors.Is(err, ErrSpec) {
		t.Errorf("a wrong URL gives %v, want ErrSpec", err)
	}
}
