package show

import (
	"strings"

	"oversell/internal/lab"
)

// OnlyEndless reports whether a cell holds only because its lock never expires. Redis had the
// lock without an expiry for longer than a lease, or while its clock was set ahead. A lock with
// an expiry would have ended there, unless it was renewed.
func OnlyEndless(m lab.Manifest, c lab.Cell) bool {
	if c.Outcome != lab.Holds {
		return false
	}
	lease := float64(m.TTL.Milliseconds())
	held := "" // the holder whose lock has no expiry
	var since float64
	for _, e := range c.Trace {
		if held != "" && (e.At-since > lease || clockSet(e)) {
			return true
		}
		switch {
		case e.Lock == "": // Redis was not read
		case e.Lock == free || e.TTL != nil:
			held = ""
		case e.Lock != held:
			held, since = e.Lock, e.At
		}
	}
	return false
}

func clockSet(e lab.Event) bool {
	return e.Kind == lab.Fault && e.Actor == "" && strings.Contains(e.Text, "clock")
}
