package imitation_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend/imitation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server whose clock only the test moves.
func serve(t *testing.T, as imitation.Version) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m, err := imitation.New(as)
	if err != nil {
		t.Fatal(err)
	}
	m.ClockTTL(false)
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() }})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
		m.Close()
	})
	return m, rdb
}

// add sends INCREX key BYINT by LBOUND low.
func add(t *testing.T, rdb redis.Cmdable, by, low int64) (value, applied int64, err error) {
	t.Helper()
	res, err := rdb.IncrEXInt(t.Context(), "key", redis.IncrEXIntArgs{By: by, HasBy: true, LBound: low, HasLBound: true}).Result()
	return res.Value, res.AppliedIncrement, err
}

// A number is changed only within its bounds. A key that does not exist is 0, and a refusal
// does not create it.
func TestIncrexStaysWithinItsBounds(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	for _, tt := range []struct {
		now     string // "": there is no key
		by, low int64

		value, applied int64
		then           string
	}{
		{"5", -2, 0, 3, -2, "3"},
		{"2", -2, 0, 0, -2, "0"},
		{"1", -2, 0, 1, 0, "1"},
		{"0", -1, 0, 0, 0, "0"},
		{"", -1, 0, 0, 0, ""},
		{"", -1, -1, -1, -1, "-1"},
		{"", 3, 0, 3, 3, "3"},
		{"5", 1, 10, 5, 0, "5"}, // outside before and after
		{"-7", 7, 0, 0, 7, "0"},
	} {
		m.FlushAll()
		if tt.now != "" {
			m.Set("key", tt.now)
		}
		value, applied, err := add(t, rdb, tt.by, tt.low)
		if err != nil || value != tt.value || applied != tt.applied {
			t.Errorf("%+v: got %d, %d, %v", tt, value, applied, err)
		}
		if now, err := m.Get("key"); now != tt.then || (tt.then == "") != errors.Is(err, miniredis.ErrKeyNotFound) {
			t.Errorf("%+v: then the key is %q, %v", tt, now, err)
		}
	}
}

func TestIncrexHasAnUpperBound(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	m.Set("key", "10")
	for by, want := range map[int64]redis.IncrEXIntResult{5: {Value: 10}, 2: {Value: 12, AppliedIncrement: 2}} {
		m.Set("key", "10")
		got, err := rdb.IncrEXInt(t.Context(), "key", redis.IncrEXIntArgs{By: by, HasBy: true, UBound: 12, HasUBound: true}).Result()
		if err != nil || got != want {
			t.Errorf("by %d: %+v, %v; want %+v", by, got, err, want)
		}
	}
	if got, err := rdb.IncrEXInt(t.Context(), "other", redis.IncrEXIntArgs{}).Result(); err != nil || got.Value != 1 || got.AppliedIncrement != 1 {
		t.Errorf("without options: %+v, %v; want 1, 1", got, err)
	}
}

// Neither an increment nor a refusal touches the ttl.
func TestIncrexKeepsTheTTL(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	m.Set("key", "1")
	m.SetTTL("key", time.Minute)
	for range 2 { // the second is refused
		if _, _, err := add(t, rdb, -1, 0); err != nil {
			t.Fatal(err)
		}
		if ttl := m.TTL("key"); ttl != time.Minute {
			t.Errorf("the ttl is %v, want %v", ttl, time.Minute)
		}
	}
}

func TestIncrexRefusesWhatIsNoNumber(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	for _, text := range []string{"seven", "1.5", "", "12345678901234567", " 1"} {
		m.Set("key", text)
		if _, _, err := add(t, rdb, 1, 0); err == nil {
			t.Errorf("%q was taken for a number", text)
		}
		if now, _ := m.Get("key"); now != text {
			t.Errorf("%q has become %q", text, now)
		}
	}
	m.Del("key")
	if _, err := m.Push("key", "a"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := add(t, rdb, 1, 0); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("a list: %v, want WRONGTYPE", err)
	}
	for _, args := range [][]any{
		{"INCREX"}, {"INCREX", "n", "BYINT"}, {"INCREX", "n", "BYINT", "x"}, {"INCREX", "n", "LBOUND", "1.5"}, {"INCREX", "n", "SATURATE"}, {"INCREX", "n", "BYFLOAT", "1"},
	} {
		if err := rdb.Do(t.Context(), args...).Err(); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
	if m.Exists("n") {
		t.Error("a refused command has created its key")
	}
}

// Many takers of few units get each unit once.
func TestIncrexIsOneStep(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	const units, takers = 20, 60
	m.Set("key", "20")
	var taken atomic.Int64
	var all sync.WaitGroup
	for range takers {
		all.Go(func() {
			_, applied, err := add(t, rdb, -1, 0)
			if err != nil {
				t.Error(err)
			}
			taken.Add(-applied)
		})
	}
	all.Wait()
	if left, err := m.Get("key"); taken.Load() != units || left != "0" || err != nil {
		t.Errorf("%d of %d units were taken, %s are left, %v", taken.Load(), units, left, err)
	}
}

// MULTI queues the commands, and WATCH sees what they changed.
func TestCommandsInATransaction(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	m.Set("key", "3")
	m.Set("lock", "a")
	var counted *redis.IncrEXIntCmd
	var set *redis.StatusCmd
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		counted = p.IncrEXInt(t.Context(), "key", redis.IncrEXIntArgs{By: -2, HasBy: true, LBound: 0, HasLBound: true})
		set = p.SetIFEQ(t.Context(), "lock", "b", "a", 0)
		return nil
	})
	if err != nil || counted.Val().Value != 1 || counted.Val().AppliedIncrement != -2 || set.Val() != "OK" {
		t.Errorf("got %+v, %q, %v", counted.Val(), set.Val(), err)
	}
	err = rdb.Watch(t.Context(), func(tx *redis.Tx) error {
		if _, _, err := add(t, rdb, -1, 0); err != nil {
			return err
		}
		_, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Set(t.Context(), "key", 9, 0).Err() })
		return err
	}, "key")
	if !errors.Is(err, redis.TxFailedErr) {
		t.Errorf("the transaction ended with %v, want %v", err, redis.TxFailedErr)
	}
}

// SET IFEQ writes only over the value that it names, and never creates a key. It sets the
// ttl as SET does.
func TestSetIfEqual(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	for _, tt := range []struct {
		now, old string // "": there is no key
		ttl      time.Duration
		written  bool
		left     time.Duration
	}{
		{"a", "a", time.Minute, true, time.Minute},
		{"a", "a", 1500 * time.Millisecond, true, 1500 * time.Millisecond},
		{"a", "a", 0, true, 0},
		{"a", "a", redis.KeepTTL, true, time.Hour},
		{"a", "A", time.Minute, false, time.Hour},
		{"", "a", time.Minute, false, 0},
		{"", "", time.Minute, false, 0},
	} {
		m.FlushAll()
		if tt.now != "" {
			m.Set("key", tt.now)
			m.SetTTL("key", time.Hour)
		}
		err := rdb.SetIFEQ(t.Context(), "key", "IFEQ", tt.old, tt.ttl).Err()
		if tt.written && err != nil || !tt.written && !errors.Is(err, redis.Nil) {
			t.Errorf("%+v: %v", tt, err)
		}
		want := tt.now
		if tt.written {
			want = "IFEQ"
		}
		if got, _ := m.Get("key"); got != want || m.TTL("key") != tt.left {
			t.Errorf("%+v: then the key is %q for %v", tt, got, m.TTL("key"))
		}
	}
	if _, err := m.Push("list", "a"); err != nil {
		t.Fatal(err)
	}
	if err := rdb.SetIFEQ(t.Context(), "list", "b", "a", 0).Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("a list: %v, want WRONGTYPE", err)
	}
	for _, args := range [][]any{{"SET", "k", "v", "IFEQ"}, {"SET", "k", "v", "NX", "IFEQ", "a"}, {"SET", "k", "v", "IFEQ", "a", "XX"}} {
		if err := rdb.Do(t.Context(), args...).Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("%v: %v, want a syntax error", args, err)
		}
	}
	if err := rdb.Set(t.Context(), "ifeq", "ifeq", 0).Err(); err != nil {
		t.Errorf("a SET without the option: %v", err)
	}
}

// A version executes the commands that its original has, says so, and refuses the others.
func TestVersions(t *testing.T) {
	for as, has := range map[imitation.Version]string{
		imitation.Redis88: "SET DELEX INCREX", imitation.Redis84: "SET DELEX", imitation.Valkey90: "SET DELIFEQ", imitation.Redis70: "",
	} {
		m, rdb := serve(t, as)
		reply, err := rdb.Do(t.Context(), "COMMAND", "INFO", "delex", "DELIFEQ", "INCREX", "GET", "NONE").Slice()
		if err != nil || len(reply) != 5 || reply[3] == nil || reply[4] != nil {
			t.Fatalf("%d: %v, %v", as, reply, err)
		}
		for i, command := range []string{"DELEX", "DELIFEQ", "INCREX"} {
			if got, want := reply[i] != nil, strings.Contains(has, command); got != want {
				t.Errorf("%d: COMMAND INFO says of %s %v, want %v", as, command, got, want)
			}
		}
		for command, args := range map[string][]any{
			"SET": {"SET", "key", "b", "IFEQ", "a"}, "DELEX": {"DELEX", "key", "IFEQ", "a"}, "DELIFEQ": {"DELIFEQ", "key", "a"}, "INCREX": {"INCREX", "number"},
		} {
			m.Set("key", "a")
			if err := rdb.Do(t.Context(), args...).Err(); (err == nil) != strings.Contains(has, command) {
				t.Errorf("%d: %v: %v", as, args, err)
			}
			if strings.HasPrefix(command, "DEL") && m.Exists("key") == strings.Contains(has, command) {
				t.Errorf("%d: %v: the key exists: %v", as, args, m.Exists("key"))
			}
		}
	}
}

func TestDeleteIfEqual(t *testing.T) {
	m, rdb := serve(t, imitation.Valkey90)
	m.Set("key", "a")
	for _, tt := range []struct{ value, want any }{{"b", int64(0)}, {"a", int64(1)}, {"a", int64(0)}} {
		if got, err := rdb.Do(t.Context(), "DELIFEQ", "key", tt.value).Result(); err != nil || got != tt.want {
			t.Errorf("DELIFEQ key %v: %v, %v; want %v", tt.value, got, err, tt.want)
		}
	}
	if _, err := m.Push("key", "a"); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Do(t.Context(), "DELIFEQ", "key", "a").Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("a list: %v, want WRONGTYPE", err)
	}
	if err := rdb.Do(t.Context(), "DELIFEQ", "key").Err(); err == nil {
		t.Error("DELIFEQ without a value was accepted")
	}
}

// Without the password nothing is executed.
func TestCommandsNeedThePassword(t *testing.T) {
	m, rdb := serve(t, imitation.Redis88)
	m.Set("key", "3")
	m.RequireAuth("secret")
	if _, _, err := add(t, rdb, -1, 0); err == nil {
		t.Error("INCREX was executed")
	}
	if err := rdb.SetIFEQ(t.Context(), "key", "9", "3", 0).Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("SET IFEQ: %v", err)
	}
	if now, _ := m.Get("key"); now != "3" {
		t.Errorf("the key is %s", now)
	}
}
