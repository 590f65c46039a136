// Package locks contains the source code of the stages as texts. Each stage is a
// separate package, in one of the folders v1_setnx to v9_cohort.
package locks

import (
	"embed"
	"io/fs"
	"slices"
)

// The patterns exclude tests: among the Go files, only the names of tests end in "st.go".
//
//go:embed v[0-9]_*/*[^t].go v[0-9]_*/*[^s]t.go v[0-9]_*/*.lua
var sources embed.FS

// Sources returns the source code of the stages. It has one folder per stage, named
// after the strategy, with the Go files and scripts of the stage, but without its
// tests.
func Sources() fs.FS { return sources }

// stages contains the names of the folders. They are numbered, so they sort in teaching order.
var stages = func() (names []string) {
	folders, err := sources.ReadDir(".")
	if err != nil {
		panic(err) // the folders are embedded
	}
	for _, f := range folders {
		names = append(names, f.Name())
	}
	return names
}()

// Stages returns the names of the stages in teaching order.
func Stages() []string { return slices.Clone(stages) }
