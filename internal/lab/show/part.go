package show

import "oversell/internal/lab"

// Part is a table beside the first one of a report.
type Part struct {
	Title  string
	Report lab.Report
}

// Parts returns the tables beside the first one, in their order.
func (s Style) Parts(r lab.Report) (parts []Part) {
	if r.Holds != nil {
		parts = append(parts, Part{s.Say("A sale by holds"), *r.Holds})
	}
	if r.Behind != nil {
		parts = append(parts, Part{s.Say("Repairs, and orders written behind the sale"), *r.Behind})
	}
	return parts
}
