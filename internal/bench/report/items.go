package report

import (
	"cmp"
	"fmt"
	"slices"

	"oversell/internal/figures"
	"oversell/internal/present"
)

// Items has the figures of a row with several items.
type Items struct {
	NotOK    int  `json:"not_ok"`   // items whose verdict is not ok
	Oversold int  `json:"oversold"` // items that were oversold
	Worst    Item `json:"worst"`
	Each     Each `json:"each"`
}

// Item is the result of one item of a row.
type Item struct {
	Number      int             `json:"number"` // from 1: the lower, the more buyers want it
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
	Throughput  float64         `json:"throughput"` // buyers served per second, until the last of them was
	Verdict     figures.Verdict `json:"verdict"`
}

// Each has the figures of all items, in the order of their numbers. A list whose figures are all
// 0, or whose verdicts are all ok, is left out.
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

// NewItems sums up the items of a row, of which there is one at least.
func NewItems(all []Item) *Items {
	list := func(of func(Item) int64) (listed []int64) {
		other := false
		for _, item := range all {
			n := of(item)
			listed, other = append(listed, n), other || n != 0
		}
		if !other {
			return nil
		}
		return listed
	}
	i := &Items{Worst: all[0], Each: Each{
		Stock:     list(func(i Item) int64 { return i.Stock }),
		Buyers:    list(func(i Item) int64 { return i.Buyers }),
		Sold:      list(func(i Item) int64 { return i.Sold }),
		Oversold:  list(func(i Item) int64 { return i.Oversold }),
		Stranded:  list(func(i Item) int64 { return i.Stranded }),
		Undersold: list(func(i Item) int64 { return i.Undersold }),
		SoldOut:   list(func(i Item) int64 { return i.SoldOut }),
		Failed:    list(func(i Item) int64 { return i.Failed }),
		Unknown:   list(func(i Item) int64 { return i.Unknown }),
	}}
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
	i.Worst = slices.MinFunc(all, worstFirst)
	return i
}

// worstFirst orders items by their verdicts, then by the units that were oversold or stranded,
// then by their buyers.
func worstFirst(a, b Item) int {
	switch {
	case a.Verdict.Worse(b.Verdict):
		return -1
	case b.Verdict.Worse(a.Verdict):
		return +1
	}
	return cmp.Or(cmp.Compare(b.Oversold, a.Oversold), cmp.Compare(b.Stranded, a.Stranded),
		cmp.Compare(b.Buyers, a.Buyers), cmp.Compare(a.Number, b.Number))
}

// of says what was sold, for one line about the row.
func (i *Items) of(s present.Style) string {
	if i == nil || i.NotOK == 0 {
		return ""
	}
	return s.Sayf(", %d items not ok, worst #%d (%s)", i.NotOK, i.Worst.Number, s.Verdict(i.Worst.Verdict))
}

// maxListed is how many items of a row are listed for a person.
const maxListed = 20

// Table is the table of the row's items for a person: the worst of them, and those with the
// most buyers. All are in the JSON form.
func (i *Items) Table(s present.Style) present.Table[Item] {
	all := i.Each.items()
	slices.SortFunc(all, worstFirst)
	t := present.Table[Item]{Rows: all[:min(maxListed, len(all))]}
	number := func(name string, of func(Item) int64) {
		t.Number(name, func(i Item) string { return zeroIsDot(float64(of(i))) })
	}
	t.Add("item", func(i Item) string { return fmt.Sprintf("#%d", i.Number) })
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

// items returns the items as they are listed.
func (e Each) items() []Item {
	all := make([]Item, len(e.Stock))
	at := func(list []int64, n int) int64 {
		if n >= len(list) {
			return 0
		}
		return list[n]
	}
	for n := range all {
		all[n] = Item{
			Number: n + 1, Stock: at(e.Stock, n), Buyers: at(e.Buyers, n), Sold: at(e.Sold, n), Oversold: at(e.Oversold, n),
			Stranded: at(e.Stranded, n), Undersold: at(e.Undersold, n), Failed: at(e.Failed, n), Unknown: at(e.Unknown, n), Verdict: figures.OK,
		}
		if n < len(e.Verdicts) {
			all[n].Verdict = e.Verdicts[n]
		}
	}
	return all
}
