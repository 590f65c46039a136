// Package locks contains the source code of the stages as texts. Each stage is a
// separate package, in one of the folders v1_setnx to v9_cohort.
package locks

import (
	"embed"
	"io/fs"
)

// The patterns exclude tests: among the Go files, only the names of tests end in "st.go".
//
//go:embed v[0-9]_*/*[^t].go v[0-9]_*/*[^s]t.go v[0-9]_*/*.lua
var sources embed.FS

// Sources returns the source code of the stages. It has one folder per stage, named
// after the strategy, with the Go files and scripts of the stage, but without its
// tests.
func Sources() fs.FS { return sources }

// Stages returns the names of the stages in teaching order, which is the order of their numbers.
func Stages() []string {
	names, err := fs.Glob(sources, "v*")
	if err != nil {
		panic(err) // the pattern is correct
	}
	return names
}
