package show

import "oversell/internal/lab"

// Lanes returns the module that draws a timeline in lanes, in the page as in the
// report that HTML writes. It draws what Story returns.
func Lanes() []byte { return []byte(asset("lanes.js")) }

// Story returns a cell and its timeline, worked out moment by moment, in the
// form that the module of Lanes draws from, as JSON.
func Story(m lab.Manifest, c lab.Cell) any {
	return newDataCell(m, c, tell(c).shorten(rowLimits[0]))
}
