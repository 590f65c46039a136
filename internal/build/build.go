// Package build tells what this program was built from.
package build

import "runtime/debug"

// Version returns the commit that the program was built from, as reports name
// it, or the module's version, or "unknown" where the build says neither.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return info.Main.Version
}
