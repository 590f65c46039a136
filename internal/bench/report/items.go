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

// Each lists the figures of all items, in the order of their numbers. A list whose figures are
// all 0, or whose verdicts are all ok, is left out.
type Each struct {
	Stock     []int64           `json:"stock,omitempty"`
	Buyers    []int64           `json:"buyers,omitempty"`
	Sold      []int64           `json:"sold,omitempty"`
	Oversold  []int64           `json:"oversold,omitempty"`
	Stranded  []int64           `json:"stranded,omitempty"`
	Undersold []int64           `json:"undersold,omitempty"`
	SoldOut   []int64           `json:"sold_out,omitempty"`
	Failed    []int64           `json:"failed,omitempty"`
	Unknown   []int64           `json:"unknown,omitempty"`
	Verdicts  []figures.Verdict `json:"verdicts,omitempty"`
}

// lists returns the lists of figures. Each has a title, and functions that return the list and the
// figure of an item.
func lists() []list {
	return []list{
		{"stock", func(e *Each) *[]int64 { return &e.Stock }, func(i Item) int64 { return i.Stock }},
		{"buyers", func(e *Each) *[]int64 { return &e.Buyers }, func(i Item) int64 { return i.Buyers }},
		{"sold", func(e *Each) *[]int64 { return &e.Sold }, func(i Item) int64 { return i.Sold }},
		{"oversold", func(e *Each) *[]int64 { return &e.Oversold }, func(i Item) int64 { return i.Oversold }},
		{"stranded", func(e *Each) *[]int64 { return &e.Stranded }, func(i Item) int64 { return i.Stranded }},
		{"undersold", func(e *Each) *[]int64 { return &e.Undersold }, func(i Item) int64 { return i.Undersold }},
		{"", func(e *Each) *[]int64 { return &e.SoldOut }, func(i Item) int64 { return i.SoldOut }},
		{"failed", func(e *Each) *[]int64 { return &e.Failed }, func(i Item) int64 { return i.Failed }},
		{"unknown", func(e *Each) *[]int64 { return &e.Unknown }, func(i Item) int64 { return i.Unknown }},
	}
}

type list struct {
	title string // "": it is not shown
	of    func(*Each) *[]int64
	in    func(Item) int64
}

// maxListed is the maximum number of items of a row in the table for a person.
const maxListed = 20

// NewItems sums up the items of a row. There must be at least one.
func NewItems(all []Item) *Items {
	sorted := slices.SortedFunc(slices.Values(all), worstFirst)
	i := &Items{Worst: sorted[0], listed: slices.Clone(sorted[:min(maxListed, len(sorted))])}
	for _, l := range lists() {
		var listed []int64
		for _, item := range all {
			listed = append(listed, l.in(item))
		}
		if slices.ContainsFunc(listed, func(n int64) bool { return n != 0 }) {
			*l.of(&i.Each) = listed
		}
	}
	var verdicts []figures.Verdict
	for _, item := range all {
		verdicts = append(verdicts, item.Verdict)
		if item.Verdict != figures.OK {
			i.NotOK++
		}
		if item.Oversold > 0 {
			i.Oversold++
		}
	}
	if i.NotOK > 0 {
		i.Each.Verdicts = verdicts
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
	for _, l := range slices.DeleteFunc(lists(), func(l list) bool { return l.title == "" }) {
		t.Number(l.title, func(i Item) string { return zeroIsDot(float64(l.in(i))) })
	}
	t.Add("verdict", func(i Item) string { return s.Verdict(i.Verdict) })
	return t
}
