// Package naming finds the name that a user means by an abbreviated or misspelled one.
package naming

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Expand returns the only one of names that begins with name, such as v2_ttl for v2. It returns
// name unchanged if it is one of the names, or if none or several of them begin with it, so that
// the error about an unknown strategy shows what the user wrote.
func Expand(name string, names []string) string {
	if name == "" || slices.Contains(names, name) {
		return name
	}
	if found := beginning(name, names); len(found) == 1 {
		return found[0]
	}
	return name
}

// ExpandAll expands each name of a list.
func ExpandAll(list, names []string) []string {
	whole := make([]string, len(list))
	for i, name := range list {
		whole[i] = Expand(name, names)
	}
	return whole
}

// Split splits a list at its commas, trims the parts, and drops empty ones.
func Split(list string) []string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// ErrName is wrapped by the errors about an unknown name.
var ErrName = errors.New("unknown name")

// Find returns the element of all with the given name. names contains their names. Its error is that of
// Check.
func Find[T any, S ~string](what, name string, all []T, names []S) (found T, err error) {
	if err := Check(what, name, names); err != nil {
		return found, err
	}
	return all[slices.Index(names, S(name))], nil
}

// Check returns an error unless name is one of names. It wraps ErrName and lists the allowed names.
func Check[S ~string](what, name string, names []S) error {
	if slices.Contains(names, S(name)) {
		return nil
	}
	return fmt.Errorf("%w of a %s: %q (%s)", ErrName, what, name, Hint(name, names))
}

// Hint returns the end of an error about an unknown name: it lists the similar names, or all names
// if none is similar.
func Hint[S ~string](name string, names []S) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = string(n)
	}
	if near := Near(name, all); len(near) > 0 {
		return fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
	}
	return "allowed: " + strings.Join(all, ", ")
}

// Near returns the names that are similar to name: those that begin with name, or else the closest
// ones by edit distance, or else those that share the longest beginning with it.
func Near(name string, names []string) []string {
	if name == "" {
		return nil
	}
	if found := beginning(name, names); len(found) > 0 {
		return found
	}
	least := (len(name) + 2) / 3
	var found []string
	for _, n := range names {
		switch d := distance(name, n); {
		case d < least:
			least, found = d, []string{n}
		case d == least:
			found = append(found, n)
		}
	}
	for start := name; len(found) == 0 && len(start) > 2; {
		start = start[:len(start)-1]
		found = beginning(start, names)
	}
	return found
}

func beginning(start string, names []string) []string {
	begins := func(n string) bool { return strings.HasPrefix(n, start) }
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !begins(n) })
}

// distance returns the number of characters to insert, remove or replace to turn a into b
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := before
			if a[i] != b[j] {
				replace++
			}
			before = row[j+1]
			row[j+1] = min(row[j]+1, before+1, replace)
		}
	}
	return row[len(b)]
}
