// Package locks has the sources of the stages in the folders below, from v1_setnx to
// v9_cohort, as texts. The stages are packages of their own.
package locks

import (
	"embed"
	"io/fs"
	"slices"
)

// The patterns leave out the tests, which are the files that end in "st.go".
//
//go:embed v[0-9]_*/*[^t].go v[0-9]_*/*[^s]t.go v[0-9]_*/*.lua
var sources embed.FS

// Sources returns the texts of the stages: a folder for each, named after the
// strategy, with its Go files and scripts, and without its tests.
func Sources() fs.FS { return sources }

// stages are the names of the folders. They are numbered, so they sort in teaching order.
var stages = func() (names []string) {
	folders, err := sources.ReadDir(".")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, f := range folders {
		names = append(names, f.Name())
	}
	return names
}()

// Stages returns the names of the stages in teaching order.
func Stages() []string { return slices.Clone(stages) }
