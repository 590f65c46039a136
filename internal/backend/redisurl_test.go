package backend

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
			got, err := parseRedisURL(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			o := got.options
			if !slices.Equal(got.addrs, strings.Fields(tt.addrs)) || got.cluster != tt.cluster ||
				got.master != tt.master {
				t.Errorf("addrs %q, cluster %t, master %q", got.addrs, got.cluster, got.master)
			}
			if o.Username != tt.user || o.Password != tt.password || o.DB != tt.db || (o.TLSConfig != nil) != tt.tls {
				t.Errorf("user %q, password %q, db %d, tls %t", o.Username, o.Password, o.DB, o.TLSConfig != nil)
			}
		})
	}
}

func TestParseRedisURLSentinelPassword(t *testing.T) {
	got, err := parseRedisURL("redis+sentinel://:data@a:1/name?sentinel_username=s&sentinel_password=w")
	if err != nil {
		t.Fatal(err)
	}
	if got.sentinelUser != "s" || got.sentinelPassword != "w" || got.options.Password != "data" {
		t.Errorf("sentinel %q %q, data %q", got.sentinelUser, got.sentinelPassword, got.options.Password)
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
		{"redis://a:1,b:2/3", "no other database than 0"},
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
		target, err := parseRedisURL(spec)
		if err != nil {
			if !errors.Is(err, ErrSpec) {
				t.Errorf("error %v is not ErrSpec", err)
			}
			return
		}
		if len(target.addrs) == 0 || slices.Contains(target.addrs, "") {
			t.Errorf("addresses %q", target.addrs)
		}
		if target.cluster && target.master != "" {
			t.Error("both a cluster and a sentinel set")
		}
		if _, err := SingleAddr(spec); err == nil {
			checkLedTo(t, spec, "127.0.0.1:1")
		}
		// A client can be created from every URL that is accepted.
		if err := target.client(1, nil).Close(); err != nil {
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
