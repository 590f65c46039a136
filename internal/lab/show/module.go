package show

import "oversell/internal/lab"

// Lanes returns the JavaScript module that draws a timeline in lanes, also used
// by the report that HTML writes. It draws what Story returns.
func Lanes() []byte { return []byte(page.File("lanes.js")) }

// Told is a cell with its timeline, as the page asks for it. Its JSON form is relied upon.
type Told struct {
	lab.Cell
	Story any `json:"story"`
}

// Tell returns a cell with its Story.
func Tell(m lab.Manifest, c lab.Cell) Told { return Told{c, Story(m, c)} }

// Story returns a cell and its timeline, worked out moment by moment, in the
// form from which the module of Lanes draws, to be marshalled as JSON.
func Story(m lab.Manifest, c lab.Cell) any {
	return newDataCell(Style{}, m, c, tell(c).shorten(rowLimits[0]))
}
