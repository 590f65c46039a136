// Package cmdlinetest checks the help of a program.
package cmdlinetest

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"oversell/internal/cmdline"
)

// Whole fails the test unless -h fits on a screen and -h all has each flag in one group.
func Whole(t *testing.T, h cmdline.Help, fs *flag.FlagSet) {
	t.Helper()
	var short strings.Builder
	h.Write(&short, fs, []string{"-h"})
	if n := strings.Count(short.String(), "\n"); n > 33 || !strings.Contains(short.String(), "-h all") {
		t.Errorf("-h has %d lines:\n%s", n, &short)
	}
	var grouped []string
	for _, g := range h.Groups {
		grouped = append(grouped, strings.Fields(g.Flags)...)
	}
	slices.Sort(grouped)
	if all := cmdline.Names(fs); !slices.Equal(grouped, all) {
		t.Errorf("-h all shows %v, and the flags are %v", grouped, all)
	}
	fs.VisitAll(func(f *flag.Flag) {
		if value, _ := flag.UnquoteUsage(f); value != strings.ToUpper(value) {
			t.Errorf("-%s takes a %q", f.Name, value)
		}
	})
}
