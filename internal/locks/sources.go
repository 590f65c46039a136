package locks

import (
	"embed"
	"io/fs"
)

// The patterns leave out the tests, which are the files that end in "st.go".
//
//go:embed v[0-9]_*/*[^t].go v[0-9]_*/*[^s]t.go v[0-9]_*/*.lua
var sources embed.FS

// Sources returns the texts of the stages: a folder for each, called as the
// strategy is, with its Go files and scripts, and without its tests.
func Sources() fs.FS { return sources }
