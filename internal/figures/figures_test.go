package figures

import (
	"testing"
	"time"
)

func TestStockFigures(t *testing.T) {
	tests := []struct {
		name                              string
		stock                             Stock
		turnedAway                        int64
		oversold, lost, undersold, ifSold int64
	}{
		{"sold out exactly", Stock{Initial: 10, Remaining: 0, Sold: 10}, 5, 0, 0, 0, 3},
		{"oversold by lost updates", Stock{Initial: 10, Remaining: 0, Sold: 14}, 5, 4, 4, 0, 7},
		{"lost updates, not yet oversold", Stock{Initial: 10, Remaining: 6, Sold: 8}, 0, 0, 4, 0, 1},
		{"stock taken, no order", Stock{Initial: 10, Remaining: 0, Sold: 9}, 5, 0, -1, 0, 2},
		{"units left, buyers refused", Stock{Initial: 10, Remaining: 4, Sold: 6}, 1, 0, 0, 4, 0},
		{"units left, nobody refused", Stock{Initial: 10, Remaining: 4, Sold: 6}, 0, 0, 0, 0, 0},
		{"counter set back above what is left", Stock{Initial: 10, Remaining: 5, Sold: 12}, 1, 2, 7, 0, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.stock.Oversold(); got != tt.oversold {
				t.Errorf("Oversold = %d, want %d", got, tt.oversold)
			}
			if got := tt.stock.LostUpdates(); got != tt.lost {
				t.Errorf("LostUpdates = %d, want %d", got, tt.lost)
			}
			if got := tt.stock.Undersold(tt.turnedAway); got != tt.undersold {
				t.Errorf("Undersold = %d, want %d", got, tt.undersold)
			}
			if got := tt.stock.OversoldPossible(3); got != tt.ifSold {
				t.Errorf("OversoldPossible(3) = %d, want %d", got, tt.ifSold)
			}
		})
	}
}

func TestVerdictNamesTheWorst(t *testing.T) {
	const after = time.Second
	tests := []struct {
		want Verdict
		run  Run
	}{
		{OK, Run{Stock: Stock{Initial: 10, Sold: 10}, SoldOut: 4}},
		{OK, Run{Stock: Stock{Initial: 10, Remaining: 4, Sold: 6}}},
		{Oversold, Run{Stock: Stock{Initial: 10, Sold: 11}, Unresolved: 3}},
		{Unknown, Run{Stock: Stock{Initial: 10, Sold: 10}, Unresolved: 1}},
		{OK, Run{Stock: Stock{Initial: 10, Remaining: 5, Sold: 5}, Unresolved: 1}},
		{Drift, Run{Stock: Stock{Initial: 10, Remaining: 1, Sold: 10}}},
		{Drift, Run{Stock: Stock{Initial: 10, Remaining: 0, Sold: 9}, SoldOut: 4}},
		{Undersold, Run{Stock: Stock{Initial: 10, Remaining: 4, Sold: 6}, SoldOut: 1, Idle: time.Minute}},
		{Undersold, Run{Stock: Stock{Initial: 10, Remaining: 4, Sold: 6}, GaveUp: 1, Idle: after / 2}},
		{Stuck, Run{Stock: Stock{Initial: 10, Remaining: 4, Sold: 6}, GaveUp: 1, Idle: after}},
	}
	for _, tt := range tests {
		tt.run.StuckAfter = after
		if got := tt.run.Verdict(); got != tt.want {
			t.Errorf("%+v: verdict %q, want %q", tt.run, got, tt.want)
		}
	}
}

func TestCacheVerdict(t *testing.T) {
	tests := []struct {
		want Verdict
		run  CacheRun
	}{
		{OK, CacheRun{Loads: 1, Served: 10}},
		{Reloaded, CacheRun{Loads: 2, Served: 10}},
		{Stuck, CacheRun{Loads: 1, GaveUp: 10}},
		{Undersold, CacheRun{Loads: 1, Served: 9, GaveUp: 1}},
	}
	for _, tt := range tests {
		if got := tt.run.Verdict(); got != tt.want {
			t.Errorf("%+v: verdict %q, want %q", tt.run, got, tt.want)
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
