package guard

import (
	"slices"
	"strconv"
	"strings"
)

// Expand returns the one of the names of strategies that begins with name, such as v2 for v2_ttl. A number
// alone, such as v6, is that of a stage, which is listed before its variants. Expand returns
// name itself if it is one of the names, or if none or several begin with it: whoever looks it
// up then refuses it as the user wrote it.
func Expand(name string, names []string) string {
	if name == "" || slices.Contains(names, name) {
		return name
	}
	var longer []string
	for _, n := range names {
		if strings.HasPrefix(n, name) {
			longer = append(longer, n)
		}
	}
	if len(longer) == 1 || len(longer) > 1 && isNumber(name) {
		return longer[0]
	}
	return name
}

// isNumber reports whether name is a stage's number, such as v6 or h1.
func isNumber(name string) bool {
	if len(name) < 2 || name[0] != 'v' && name[0] != 'h' {
		return false
	}
	_, err := strconv.ParseUint(name[1:], 10, 8)
	return err == nil
}

// ExpandAll expands each name of a list.
func ExpandAll(list, names []string) []string {
	whole := make([]string, len(list))
	for i, name := range list {
		whole[i] = Expand(name, names)
	}
	return whole
}
