package guard_test

import (
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// A short name stands for the only name that begins with it, and for nothing else.
func TestExpandTakesOnlyWhatIsUnique(t *testing.T) {
	names := append(catalog.Strategies().Names(), "v2", "v10_x", "h10_x")
	for short, want := range map[string]string{
		"v1": "v1_setnx", "v5_": "v5_reentrant", "v4": "v4_lua", "v4_": "v4_", "red": "red", "redl": "redlock", "lua": "lua", "lua_b": "lua_batch",
		"none": "none", "v6": "v6_watchdog", "v6_w": "v6_w", "v10": "v10_x", "h": "h10_x", "h1": "h10_x", "v2": "v2", "": "", "v": "v", "v1_setnx_": "v1_setnx_", "V1": "V1", "v1_x": "v1_x",
	} {
		if got := guard.Expand(short, names); got != want {
			t.Errorf("Expand(%q) is %q, want %q", short, got, want)
		}
	}
}
