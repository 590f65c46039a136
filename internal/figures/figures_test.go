package figures

import (
	"slices"
	"testing"
	"time"
)

func TestStockFigures(t *testing.T) {
	tests := []struct {
		name                                        string
		stock                                       Stock
		turnedAway                                  int64
		oversold, lost, undersold, ifSold, stranded int64
	}{
		{"sold out exactly", Stock{Initial: 10, Remaining: 0, Sold: 10}, 5, 0, 0, 0, 3, 0},
		{"oversold by lost updates", Stock{Initial: 10, Remaining: 0, Sold: 14}, 5, 4, 4, 0, 7, 0},
		{"lost updates, not yet oversold", Stock{Initial: 10, Remaining: 6, Sold: 8}, 0, 0, 4, 0, 1, 0},
		{"stock taken, no order", Stock{Initial: 10, Remaining: 0, Sold: 9}, 5, 0, -1, 0, 2, 1},
		{"units left, buyers refused", Stock{Initial: 10, Remaining: 4, Sold: 6}, 1, 0, 0, 4, 0, 0},
		{"units left, nobody refused", Stock{Initial: 10, Remaining: 4, Sold: 6}, 0, 0, 0, 0, 0, 0},
		{"units held", Stock{Initial: 10, Remaining: 3, Sold: 4, Held: 2}, 0, 0, -1, 0, 0, 1},
		{"counter set back above what is left", Stock{Initial: 10, Remaining: 5, Sold: 12}, 1, 2, 7, 0, 5, 0},
	}
	for _, tt := range tests {
		s := tt.stock
		got := []int64{s.Oversold(), s.LostUpdates(), s.Undersold(tt.turnedAway), s.OversoldPossible(3), s.Stranded()}
		if want := []int64{tt.oversold, tt.lost, tt.undersold, tt.ifSold, tt.stranded}; !slices.Equal(got, want) {
			t.Errorf("%s: oversold, lost, undersold, oversold if 3 more are sold, stranded: %v, want %v",
				tt.name, got, want)
		}
	}
}

// If a buyer got a wrong reply, the verdict is drift even if the stock is right, unless there is a
// worse verdict.
func TestVerdictNamesTheWorst(t *testing.T) {
	const after = time.Second
	sold, missing := Stock{Initial: 10, Sold: 10}, Told{AcknowledgedMissing: 1}
	left := Stock{Initial: 10, Remaining: 4, Sold: 6}
	for _, tt := range []struct {
		want Verdict
		run  Run
	}{
		{OK, Run{Stock: sold, SoldOut: 4}},
		{OK, Run{Stock: left}},
		{Oversold, Run{Stock: Stock{Initial: 10, Sold: 11}, Unresolved: 3}},
		{Unknown, Run{Stock: sold, Unresolved: 1}},
		{OK, Run{Stock: Stock{Initial: 10, Remaining: 5, Sold: 5}, Unresolved: 1}},
		{Drift, Run{Stock: Stock{Initial: 10, Remaining: 1, Sold: 10}}},
		{Drift, Run{Stock: Stock{Initial: 10, Remaining: 0, Sold: 9}, SoldOut: 4}},
		{Undersold, Run{Stock: left, SoldOut: 1, Idle: time.Minute}},
		{Undersold, Run{Stock: left, GaveUp: 1, Idle: after / 2}},
		{Stuck, Run{Stock: left, GaveUp: 1, Idle: after}},
		{Drift, Run{Stock: sold, SoldOut: 5, Told: missing}},
		{Drift, Run{Stock: sold, Told: Told{Unreported: 1}}},
		{Drift, Run{Stock: sold, Told: Told{Duplicates: 1}}},
		{Drift, Run{Stock: Stock{Initial: 10, Sold: 10, Duplicates: 1}}},
		{Oversold, Run{Stock: Stock{Initial: 10, Sold: 11}, Told: missing}},
		{Unknown, Run{Stock: sold, Unresolved: 1, Told: missing}},
		{Stuck, Run{Stock: left, GaveUp: 3, Idle: time.Minute, Told: missing}},
	} {
		tt.run.StuckAfter = after
		if got := tt.run.Verdict(); got != tt.want {
			t.Errorf("%+v: verdict %q, want %q", tt.run, got, tt.want)
		}
	}
}

func TestColdKey(t *testing.T) {
	for _, tt := range []struct {
		want                  Verdict
		loads, served, gaveUp int64
	}{
		{OK, 1, 10, 0},
		{Reloaded, 2, 10, 0},
		{Stuck, 1, 0, 10},
		{Undersold, 1, 9, 1},
	} {
		if got := ColdKey(tt.loads, tt.served, tt.gaveUp); got != tt.want {
			t.Errorf("%+v: verdict %q", tt, got)
		}
	}
}

func TestMaxHolders(t *testing.T) {
	at := func(from, to int) Span {
		return Span{time.Unix(0, int64(from)), time.Unix(0, int64(to))}
	}
	tests := []struct {
		name  string
		spans []Span
		want  int
	}{
		{"nobody", nil, 0},
		{"one after the other", []Span{at(5, 9), at(1, 5), at(9, 12)}, 1},
		{"two overlap", []Span{at(1, 5), at(4, 9), at(9, 12)}, 2},
		{"one long hold over three short ones", []Span{at(1, 100), at(2, 3), at(4, 5), at(4, 6)}, 3},
	}
	for _, tt := range tests {
		if got := MaxHolders(tt.spans); got != tt.want {
			t.Errorf("%s: MaxHolders = %d, want %d", tt.name, got, tt.want)
		}
	}
}
