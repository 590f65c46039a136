package main

import (
	"errors"
	"fmt"

	"oversell/internal/atomicfile"
)

// files are the files that a report is written to.
type files struct {
	json, html *atomicfile.File // nil: nowhere
}

// open creates the files before the run, so that nobody waits for a report that
// cannot be written.
func (o options) open() (out files, err error) {
	if o.json != "" && o.json != "-" {
		if out.json, err = atomicfile.Create(o.json); err != nil {
			return out, fmt.Errorf("-json: %w", err)
		}
	}
	if o.html != "" {
		if out.html, err = atomicfile.Create(o.html); err != nil {
			return out, errors.Join(fmt.Errorf("-html: %w", err), out.discard())
		}
	}
	return out, nil
}

// discard removes what was not written.
func (f files) discard() error {
	var err error
	for _, one := range []*atomicfile.File{f.json, f.html} {
		if one != nil {
			err = errors.Join(err, one.Close())
		}
	}
	return err
}
