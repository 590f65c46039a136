package guard

import (
	"slices"
	"strings"
)

// Expand returns the only one of the names that begins with name, such as v2_ttl for v2. It returns
// name itself if it is one of the names, or if none or several begin with it, so that the error
// about an unknown strategy shows what the user wrote.
func Expand(name string, names []string) string {
	if name == "" || slices.Contains(names, name) {
		return name
	}
	begins := func(n string) bool { return strings.HasPrefix(n, name) }
	i := slices.IndexFunc(names, begins)
	if i < 0 || slices.ContainsFunc(names[i+1:], begins) {
		return name
	}
	return names[i]
}

// ExpandAll expands each name of a list.
func ExpandAll(list, names []string) []string {
	whole := make([]string, len(list))
	for i, name := range list {
		whole[i] = Expand(name, names)
	}
	return whole
}
