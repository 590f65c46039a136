package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"

	"oversell/internal/catalog"
	"oversell/internal/lab"
)

// checkMeaning refuses flags that would have no effect, because a user who gives one
// expects an effect. Only -db is accepted: its help says so.
func (o options) checkMeaning(fs *flag.FlagSet) error {
	for _, need := range []catalog.Need{catalog.NeedsNodes, catalog.NeedsEtcd, catalog.NeedsZooKeeper} {
		name := string(need)
		needed := slices.ContainsFunc(o.locks.subjects, func(c lab.Subject) bool { return c.Needs == need })
		if given(fs, name) && !needed {
			return fmt.Errorf("-%[1]s has no effect without -strategy %[1]s", name)
		}
	}
	if given(fs, "lang") && o.json == "-" && o.html == "" {
		return errors.New("-lang has no effect with -json -, as JSON is in English")
	}
	return nil
}
