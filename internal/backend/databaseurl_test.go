package backend

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseDatabaseURL(t *testing.T) {
	for _, spec := range []string{
		"u:p@tcp(h:3306)/db",
		"u@tcp(h:3306)/db?parseTime=false&loc=Local",
		"u@tcp(h:3306)/db?clientFoundRows=true",
		"u:p@unix(/run/mysqld.sock)/db",
		"u:p/q@r(s)@tcp(h)/db",
	} {
		t.Run(spec, func(t *testing.T) {
			got, err := parseDatabaseURL(spec)
			if err != nil {
				t.Fatal(err)
			}
			c := got.mysql
			if c.DBName != "db" || !c.ParseTime || c.Loc != time.UTC {
				t.Errorf("database %q, parseTime %t, loc %v", c.DBName, c.ParseTime, c.Loc)
			}
			if c.ClientFoundRows {
				t.Error("rows that were found count as affected")
			}
			if c.Timeout == 0 || c.ReadTimeout == 0 || c.WriteTimeout == 0 {
				t.Errorf("timeouts %v %v %v, want all set", c.Timeout, c.ReadTimeout, c.WriteTimeout)
			}
		})
	}
}

// Only TCP connections without TLS can go through a relay. WithDatabaseAddr changes only the address.
func TestDatabaseAddr(t *testing.T) {
	const dsn = "u:p@tcp(h:3307)/db?readTimeout=1m0s"
	if addr, err := DatabaseAddr(dsn); addr != "h:3307" || err != nil {
		t.Errorf("the address of %q is %q, %v", dsn, addr, err)
	}
	through, err := WithDatabaseAddr(dsn, "127.0.0.1:1")
	if want := "u:p@tcp(127.0.0.1:1)/db?readTimeout=1m0s"; through != want || err != nil {
		t.Errorf("through a relay it is %q, %v; want %q", through, err, want)
	}
	if _, err := DatabaseAddr(dsn + "&tls=false"); err != nil {
		t.Errorf("explicitly without TLS: %v", err)
	}
	for _, other := range []string{
		"sqlite:shop.db", "u:secret@unix(/run/mysqld.sock)/db", "u:secret@tcp(h)/db?tls=true",
		"u:secret@tcp(h)/db?tls=preferred",
	} {
		if _, err := DatabaseAddr(other); !errors.Is(err, ErrNotRelayed) {
			t.Errorf("%s: %v, want %v", other, err, ErrNotRelayed)
		}
	}
	_, err = WithDatabaseAddr("u:secret@tcp(h:1)", "h:2")
	if !errors.Is(err, ErrSpec) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong URL: %v, want %v without the password", err, ErrSpec)
	}
}

func TestParseDatabaseURLKeepsTheUsersTimes(t *testing.T) {
	got, err := parseDatabaseURL("u@tcp(h)/db?readTimeout=1m&innodb_lock_wait_timeout=50")
	if err != nil {
		t.Fatal(err)
	}
	if got.mysql.ReadTimeout != time.Minute || got.mysql.Params["innodb_lock_wait_timeout"] != "50" {
		t.Errorf("read timeout %v, parameters %v", got.mysql.ReadTimeout, got.mysql.Params)
	}
}

func TestParseDatabaseURLSQLite(t *testing.T) {
	for spec, file := range map[string]string{
		"sqlite:/a/b c.db": "/a/b c.db",
		"sqlite:shop.db":   "shop.db",
		"sqlite:%41#.db":   "%41#.db",
	} {
		got, err := parseDatabaseURL(spec)
		if err != nil || got.file != file {
			t.Errorf("%s: file %q, %v; want %q", spec, got.file, err, file)
		}
	}
}

func TestParseDatabaseURLRefuses(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{"", "it is empty"},
		{"lokal", `unknown word "lokal"`},
		{"mysql://u:secret@h/db", "it is a URL, not a DSN"},
		{"u:secret@tcp(h:3306)", "the slash before the database is missing"},
		{"u:secret@h:3306/db", "the address is not in tcp(…)"},
		{"u:secret@tcp(h:3306)/", "names no database"},
		{"u:secret@tcp(h:3306/db", "does not parse"},
		{"u:x@secret(h)/db", "neither in tcp(…) nor in unix(…)"},
		{"u:secret@tcp(h)/db?parseTime=secret", "does not parse"},
		{"u:secret@tcp(h)/db?tls=nosuch", "does not parse"},
		{"sqlite:", "names no file"},
		{"sqlite::memory:", "cannot share"},
		{"sqlite:a?b", "question mark"},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			_, err := parseDatabaseURL(tt.spec)
			if !errors.Is(err, ErrSpec) {
				t.Fatalf("error %v is not ErrSpec", err)
			}
			checkMessage(t, err, tt.want)
		})
	}
}

func FuzzParseDatabaseURL(f *testing.F) {
	for _, seed := range []string{
		"local", "u:p@tcp(h:3306)/db?x=y", "sqlite:f", "/", "(/", "@(/x?=&", "u@unix(/s)/d?tls=true",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		const marker = "XYZZY" // not part of any message
		for _, spec := range []string{spec, "u:" + marker + spec, "u:" + marker + "@tcp(h)" + spec} {
			target, err := parseDatabaseURL(spec)
			switch {
			case err == nil && (target.mysql != nil) == (target.file != ""):
				t.Errorf("%q: want a DSN or a file, not both or none: %+v", spec, target)
			case err != nil && !errors.Is(err, ErrSpec):
				t.Errorf("%q: error %v is not ErrSpec", spec, err)
			case err != nil && strings.Contains(err.Error(), marker):
				t.Errorf("%q: message %q repeats the password", spec, err)
			}
		}
	})
}
