package main

import (
	"flag"
	"fmt"
	"slices"

	"oversell/internal/lab"
	"oversell/internal/locks"
)

// checkMeaning refuses flags that are given and change nothing in what is run: who
// gives one expects a difference. Only -db is let pass: its text says so.
func (o options) checkMeaning(fs *flag.FlagSet) error {
	for _, need := range []locks.Need{locks.NeedsNodes, locks.NeedsEtcd, locks.NeedsZooKeeper} {
		name := string(need)
		needed := slices.ContainsFunc(o.columns, func(c lab.Column) bool { return c.Needs == need })
		if given(fs, name) && !needed {
			return fmt.Errorf("-%[1]s is given and means nothing here: it goes with -strategy %[1]s", name)
		}
	}
	return nil
}
