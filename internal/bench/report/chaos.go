package report

import (
	"fmt"
	"strings"

	"oversell/internal/message"
	"oversell/internal/present"
)

// Chaos is the result of a row under chaos.
type Chaos struct {
	Seed   uint64  `json:"seed"`
	Faults []Fault `json:"faults"`

	Acknowledged int64 `json:"acknowledged"`  // buyers who were told of an order, including the sell-out
	BoughtAtEnd  int64 `json:"bought_at_end"` // how many of them bought in the sell-out
	Repeated     int64 `json:"repeated"`      // requests beyond each buyer's first

	Sold         int64    `json:"sold"` // units in order rows
	Missing      int64    `json:"acknowledged_missing"`
	Duplicates   int64    `json:"duplicates"`
	Unreported   int64    `json:"unreported"`
	Foreign      int64    `json:"foreign"` // units in orders of another sale
	Oversold     int64    `json:"oversold"`
	Remaining    int64    `json:"remaining"` // units still on sale after the sell-out
	Stranded     int64    `json:"stranded"`
	SoldOut      bool     `json:"sold_out"` // the sell-out ended in "sold out"
	StopsHolder  bool     `json:"stops_holder"`
	MissingIDs   []string `json:"missing_orders,omitempty"`
	DuplicateIDs []string `json:"duplicate_orders,omitempty"`
}

// Fault is a fault that was injected, or skipped.
type Fault struct {
	Kind    string          `json:"kind"`
	Victim  string          `json:"victim"`
	Message message.Message `json:"message,omitzero"`    // Victim, to be translated; older reports lack it
	Planned float64         `json:"planned_s"`           // when it was to begin, measured from the start
	For     float64         `json:"for_s"`               // how long it was to last; 0: it has no duration
	Amount  float64         `json:"amount_ms,omitempty"` // delay of replies or of an INSERT

	At     float64  `json:"at_s"`           // when it began
	Lasted float64  `json:"lasted_s"`       // time until its targets were available again
	SoldIn int64    `json:"sold_meanwhile"` // orders that buyers were told of while it lasted
	From   string   `json:"from"`           // what sold_again_s is measured from: "end" or "fault"
	Again  *float64 `json:"sold_again_s"`   // time until a buyer was told of a new order; nil: never
	Limit  float64  `json:"limit_s"`        // longest sold_again_s that is allowed
	// Stalled is the part of Again in which the bench, and presumably the shops, did not get the
	// CPU.
	Stalled  float64 `json:"stalled_s"`
	Skipped  bool    `json:"skipped,omitempty"`
	Error    string  `json:"error,omitempty"` // why it could not be injected
	StopsFor bool    `json:"stops_holder,omitempty"`
}

// Late reports whether the sale took too long to recover, not counting stalls.
func (d Fault) Late() bool { return !d.Skipped && (d.Again == nil || *d.Again-d.Stalled > d.Limit) }

// Recovery says how long the sale took to recover.
func (d Fault) Recovery() message.Message {
	if d.Again == nil {
		return message.Text("never")
	}
	return message.Newf("%.2f s", *d.Again)
}

// shownRows is the maximum number of rows of a report that shows the faults of every row. A longer
// report shows only the faults of rows that did not match the expectation.
const shownRows = 6

// faults shows the result and the faults of each row under chaos.
func (r Report) faults(s present.Style) string {
	var b strings.Builder
	for _, row := range r.Rows {
		if row.Chaos == nil {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", row.chaosLine(s))
		if len(r.Rows) <= shownRows || !row.Expected {
			b.WriteString(row.Chaos.faultTable(s).Text(s))
		}
	}
	return b.String()
}

// chaosLine returns the result of a row under chaos in one line.
func (r Row) chaosLine(s present.Style) string {
	c := r.Chaos
	slowest, kind := 0.0, ""
	for _, d := range c.Faults {
		if d.Again != nil && *d.Again >= slowest {
			slowest, kind = *d.Again, d.Kind
		}
	}
	text := s.Sayf("%s, seed %d: acknowledged %d (%d of them in the final sell-out), acknowledged_missing %d, "+
		"duplicates %d, unreported %d, oversold %d, stranded %d, foreign %d",
		r.Strategy, c.Seed, c.Acknowledged, c.BoughtAtEnd, c.Missing, c.Duplicates, c.Unreported, c.Oversold,
		c.Stranded, c.Foreign)
	if kind != "" {
		text += s.Sayf("; slowest recovery %.2f s (%s)", slowest, kind)
	}
	return text
}

// faultTable returns the table of the faults of a row under chaos.
func (c Chaos) faultTable(s present.Style) present.Table[Fault] {
	unless := func(skipped string, cell func(Fault) string) func(Fault) string {
		return func(f Fault) string {
			if f.Skipped {
				return skipped
			}
			return cell(f)
		}
	}
	return present.Table[Fault]{Rows: c.Faults, Columns: []present.Column[Fault]{
		{Name: "at s", Cell: Fault.at},
		{Name: "fault", Left: true, Cell: func(f Fault) string { return f.what(s) }},
		{Name: "target", Left: true, Cell: func(f Fault) string { return s.Tell(f.Victim, f.Message) }},
		{Name: "planned s", Cell: func(f Fault) string { return hundredths(f.For) }},
		{Name: "lasted s", Cell: unless(s.Say("skipped"), func(f Fault) string { return hundredths(f.Lasted) })},
		{Name: "sold during", Cell: unless("", func(f Fault) string { return fmt.Sprint(f.SoldIn) })},
		{Name: "recovered after s", Cell: unless("", func(f Fault) string { return f.recovered(s) })},
		{Name: "limit s", Cell: unless("", func(f Fault) string {
			return s.Sayf("%.0f after the %s", f.Limit, s.Say(f.From))
		})},
	}}
}

// at shows when the fault began, or was to begin.
func (d Fault) at() string {
	if d.Skipped {
		return fmt.Sprintf("(%.2f)", d.Planned)
	}
	return fmt.Sprintf("%.2f", d.At)
}

func (d Fault) what(s present.Style) string {
	if d.Amount > 0 {
		return d.Kind + s.Sayf(" by %.0f ms", d.Amount)
	}
	return d.Kind
}

func (d Fault) recovered(s present.Style) string {
	again := s.Say("never")
	if d.Again != nil {
		again = hundredths(*d.Again)
	}
	if d.Stalled >= 0.1 {
		again += s.Sayf(", %.2f of it stalled", d.Stalled)
	}
	if d.Late() {
		again += " (!)"
	}
	return again
}
