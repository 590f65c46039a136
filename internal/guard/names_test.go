package guard_test

import (
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// A short name stands for the only name that begins with it, and for nothing else.
func TestExpandTakesOnlyWhatIsUnique(t *testing.T) {
	names := append(catalog.Strategies().Names(), "v2", "h1_counter", "h2_status")
	for short, want := range map[string]string{
		"v1": "v1_setnx", "v5_": "v5_reentrant", "redl": "redlock", "lua_b": "lua_batch", "none": "none", "h1": "h1_counter",
		"red": "red", "lua": "lua", "h": "h", "v": "v", "": "", // several begin with it
		"v2": "v2", "v1_setnx_": "v1_setnx_", "V1": "V1", "v1_x": "v1_x",
	} {
		if got := guard.Expand(short, names); got != want {
			t.Errorf("Expand(%q) is %q, want %q", short, got, want)
		}
	}
}
