package naming

import (
	"slices"
	"testing"
)

func TestNear(t *testing.T) {
	all := []string{"none", "v1_setnx", "v2_ttl", "v6_watchdog", "lua_batch", "sql_units"}
	for name, want := range map[string][]string{
		"v66":         {"v6_watchdog"},
		"v":           {"v1_setnx", "v2_ttl", "v6_watchdog"},
		"nome":        {"none"},
		"v6_watchdgo": {"v6_watchdog"},
		"luabatch":    {"lua_batch"},
		"zebra":       nil,
		"":            nil,
	} {
		if got := Near(name, all); !slices.Equal(got, want) {
			t.Errorf("%q is like %v, want %v", name, got, want)
		}
	}
	if got := Near("strategy", []string{"ttl", "strategies", "stock"}); !slices.Equal(got, []string{"strategies"}) {
		t.Errorf("strategy is like %v", got)
	}
}

// A prefix is expanded only if exactly one name begins with it.
func TestExpandTakesOnlyWhatIsUnique(t *testing.T) {
	names := []string{
		"none", "local", "v1_setnx", "v2_ttl", "v5_reentrant", "v6_watchdog", "lua_atomic", "lua_batch",
		"redlock", "redsync", "redislock", "v2", "h1_counter", "h2_status",
	}
	for short, want := range map[string]string{
		"v1": "v1_setnx", "v5_": "v5_reentrant", "redl": "redlock", "lua_b": "lua_batch",
		"none": "none", "h1": "h1_counter",
		"red": "red", "lua": "lua", "h": "h", "v": "v", "": "", // several names begin with each of these
		"v2": "v2", "v1_setnx_": "v1_setnx_", "V1": "V1", "v1_x": "v1_x",
	} {
		if got := Expand(short, names); got != want {
			t.Errorf("Expand(%q) is %q, want %q", short, got, want)
		}
	}
}
