package fleet

import "runtime/debug"

// Version returns the commit from which the program was built, for reports. If the commit is not
// known, it returns the module's version, or "unknown" if there is no build information.
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
