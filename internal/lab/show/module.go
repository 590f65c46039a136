package show

import "oversell/internal/lab"

// Lanes returns the JavaScript module that draws a timeline in lanes, also used
// by the report that HTML writes. It draws what Story returns.
func Lanes() []byte { return []byte(asset("lanes.js")) }

// Story returns a cell and its timeline, worked out moment by moment, in the
// form from which the module of Lanes draws, to be marshalled as JSON.
func Story(m lab.Manifest, c lab.Cell) any {
	return newDataCell(m, c, tell(c).shorten(rowLimits[0]))
}
