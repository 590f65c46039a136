package report

import (
	"cmp"
	"fmt"
	"slices"

	"oversell/internal/figures"
	"oversell/internal/present"
)

// Items holds the figures of a row with several items.
type Items struct {
	NotOK    int  `json:"not_ok"`   // items whose verdict is not ok
	Oversold int  `json:"oversold"` // items that were oversold
	Worst    Item `json:"worst"`
	Each     Each `json:"each"`

	listed []Item // the worst, and those with the most buyers
}

// Item is the result of one item of a row.
type Item struct {
	Number      int             `json:"number"` // from 1; more buyers want the items with lower numbers
	Stock       int64           `json:"stock"`
	Buyers      int64           `json:"buyers"`
	Sold        int64           `json:"sold"`
	Oversold    int64           `json:"oversold"`
	LostUpdates int64           `json:"lost_updates"`
	Stranded    int64           `json:"stranded"`
	Undersold   int64           `json:"undersold"`
	SoldOut     int64           `json:"sold_out"`
	Failed      int64           `json:"failed"`
	Unknown     int64           `json:"unknown"`
	Untrue      int64           `json:"untrue"` // replies and orders that do not match, and duplicates
	MaxHolders  int             `json:"max_holders"`
	Throughput  float64         `json:"throughput"` // buyers served per second, up to the last one
	Verdict     figures.Verdict `json:"verdict"`
}

// Each lists the figures of all items, in the order of their numbers. JSON leaves out a list whose
// figures are all 0, or whose verdicts are all ok.
type Each struct {
	Stock     list              `json:"stock,omitzero"`
	Buyers    list              `json:"buyers,omitzero"`
	Sold      list              `json:"sold,omitzero"`
	Oversold  list              `json:"oversold,omitzero"`
	Stranded  list              `json:"stranded,omitzero"`
	Undersold list              `json:"undersold,omitzero"`
	SoldOut   list              `json:"sold_out,omitzero"`
	Failed    list              `json:"failed,omitzero"`
	Unknown   list              `json:"unknown,omitzero"`
	Verdicts  []figures.Verdict `json:"verdicts,omitempty"`
}

type list []int64

// IsZero reports whether all figures are 0.
func (l list) IsZero() bool { return !slices.ContainsFunc(l, func(n int64) bool { return n != 0 }) }

// maxListed is the maximum number of items of a row in the table for a person.
const maxListed = 20

// NewItems sums up the items of a row. There must be at least one.
func NewItems(all []Item) *Items {
	sorted := slices.SortedFunc(slices.Values(all), worstFirst)
	i := &Items{Worst: sorted[0], listed: slices.Clone(sorted[:min(maxListed, len(sorted))])}
	e := &i.Each
	for _, item := range all {
		e.Stock = append(e.Stock, item.Stock)
		e.Buyers = append(e.Buyers, item.Buyers)
		e.Sold = append(e.Sold, item.Sold)
		e.Oversold = append(e.Oversold, item.Oversold)
		e.Stranded = append(e.Stranded, item.Stranded)
		e.Undersold = append(e.Undersold, item.Undersold)
		e.SoldOut = append(e.SoldOut, item.SoldOut)
		e.Failed = append(e.Failed, item.Failed)
		e.Unknown = append(e.Unknown, item.Unknown)
		e.Verdicts = append(e.Verdicts, item.Verdict)
		if item.Verdict != figures.OK {
			i.NotOK++
		}
		if item.Oversold > 0 {
			i.Oversold++
		}
	}
	if i.NotOK == 0 {
		e.Verdicts = nil
	}
	return i
}

// worstFirst orders items by their verdicts, then by the units that were oversold or stranded,
// then by their buyers.
func worstFirst(a, b Item) int {
	return cmp.Or(cmp.Compare(b.Verdict.Rank(), a.Verdict.Rank()), cmp.Compare(b.Oversold, a.Oversold),
		cmp.Compare(b.Stranded, a.Stranded), cmp.Compare(b.Buyers, a.Buyers), cmp.Compare(a.Number, b.Number))
}

// of returns the part of a row's line that is about the items, or "" if all are ok.
func (i *Items) of(s present.Style) string {
	if i == nil || i.NotOK == 0 {
		return ""
	}
	return s.Sayf(", %d items not ok, worst #%d (%s)", i.NotOK, i.Worst.Number, s.Verdict(i.Worst.Verdict))
}

// Table returns a table of the row's items for a person: the worst items, and those with the
// most buyers. The JSON form lists all of them.
func (i *Items) Table(s present.Style) present.Table[Item] {
	t := present.Table[Item]{Rows: i.listed}
	t.Add("item", func(i Item) string { return fmt.Sprintf("#%d", i.Number) })
	number := func(title string, of func(Item) int64) {
		t.Number(title, func(i Item) string { return zeroIsDot(float64(of(i))) })
	}
	number("stock", func(i Item) int64 { return i.Stock })
	number("buyers", func(i Item) int64 { return i.Buyers })
	number("sold", func(i Item) int64 { return i.Sold })
	number("oversold", func(i Item) int64 { return i.Oversold })
	number("stranded", func(i Item) int64 { return i.Stranded })
	number("undersold", func(i Item) int64 { return i.Undersold })
	number("failed", func(i Item) int64 { return i.Failed })
	number("unknown", func(i Item) int64 { return i.Unknown })
	t.Add("verdict", func(i Item) string { return s.Verdict(i.Verdict) })
	return t
}
