// Package locks contains the source code of the stages as texts. The stages are packages
// of their own, in the folders v1_setnx to v9_cohort.
package locks

import (
	"embed"
	"io/fs"
	"slices"
)

// The patterns leave out the tests: among Go files, only the names of tests end in "st.go".
//
//go:embed v[0-9]_*/*[^t].go v[0-9]_*/*[^s]t.go v[0-9]_*/*.lua
var sources embed.FS

// Sources returns the source code of the stages: a folder for each, named after the
// strategy, with its Go files and scripts, but without its tests.
func Sources() fs.FS { return sources }

// stages are the names of the folders. They are numbered, so they sort in teaching order.
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
