package search

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// id tells a state apart from those that lead to something else. Buyers are alike, so it
// is the same when two have changed places.
func (s *state) id() [sha256.Size]byte {
	var least []byte
	for _, order := range orders(len(s.buyers)) {
		if text := s.describe(order); least == nil || bytes.Compare(text, least) < 0 {
			least = text
		}
	}
	return sha256.Sum256(least)
}

// orders are all orders of n buyers.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, rest := range orders(n - 1) {
		for i := 0; i <= len(rest); i++ {
			all = append(all, slices.Insert(slices.Clone(rest), i, n-1))
		}
	}
	return all
}

// describe describes a state, with the buyers in an order.
func (s *state) describe(order []int) []byte {
	places := make([]int, len(order))
	for place, i := range order {
		places[i] = place
	}
	d := describer{places: places, now: s.now, names: make(map[string]string)}
	for place, i := range order {
		b := &s.buyers[i]
		d.me = i
		switch {
		case b.node == nil:
			d.add("\nabsent")
		case b.dead:
			d.add("\ndead")
		default:
			d.add(fmt.Sprintf("\n%d %v %v ", place, b.frozen, b.vain && b.asked.sameBut(s.data)))
			d.add(b.node.id(b.idle))
		}
		for _, t := range b.txs {
			if t != nil {
				d.add(fmt.Sprintf("\ntx %v %d", t.stale, len(t.sent)))
			}
		}
	}
	for _, w := range s.waits {
		d.me = w.buyer
		d.add(fmt.Sprintf("\nwait %d %v %v %s", places[w.buyer], w.left, w.lost, w.cmd.text))
	}
	d.me = nobody
	d.data(s.data)
	holder := s.holder
	if holder != nobody {
		holder = places[holder]
	}
	only := s.only
	only.buyer = places[only.buyer]
	d.add(fmt.Sprintf("\n%d sold %d %v %v", s.sold(), holder, s.left, only))
	return d.text()
}

// describer builds a text in which names of what was drawn, times and tokens are replaced
// by what matters of them.
type describer struct {
	places []int
	now    time.Duration
	me     int
	names  map[string]string // of what was drawn
	parts  []part
	fences []int64
}

// part is a piece of text, or a fencing token.
type part struct {
	text  string
	fence int64 // 0: it is text
}

// add adds a text.
func (d *describer) add(text string) {
	for text != "" {
		i := strings.IndexFunc(text, func(r rune) bool { return r == '~' || r >= '0' && r <= '9' })
		if i < 0 {
			d.parts = append(d.parts, part{text: text})
			return
		}
		if i > 0 {
			d.parts = append(d.parts, part{text: text[:i]})
		}
		text = text[i:]
		if text[0] == '~' {
			text = d.standIn(text)
		} else {
			text = d.number(text)
		}
	}
}

// standIn adds a stand-in by the place of its buyer, and by its order among those met. It
// returns the rest of the text.
func (d *describer) standIn(text string) string {
	end := strings.IndexByte(text[1:], '~')
	if end < 1 || text[1] != '.' && (text[1] < 'A' || text[1] > 'C') {
		d.parts = append(d.parts, part{text: text[:1]})
		return text[1:]
	}
	whose, rest := d.me, text[end+2:]
	if text[1] != '.' {
		whose = int(text[1] - 'A')
	}
	number := strings.TrimRight(text[2:end+1], "_")
	name := fmt.Sprintf("~%d.0~", d.places[whose])
	if number != "0" {
		drawn := strconv.Itoa(whose) + "." + number
		if d.names[drawn] == "" {
			d.names[drawn] = fmt.Sprintf("~%d~", len(d.names)+1)
		}
		name = d.names[drawn]
	}
	d.parts = append(d.parts, part{text: name})
	return rest
}

// number adds a number: a moment in milliseconds as what is left until then, a fencing
// token as its rank.
func (d *describer) number(text string) string {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	word, rest := text[:n], text[n:]
	value, err := strconv.ParseInt(word, 10, 64)
	switch since := value - epoch.UnixMilli(); {
	case err != nil || since < 0:
	case value >= epoch.UnixMicro():
		d.fences = append(d.fences, value)
		d.parts = append(d.parts, part{fence: value})
		return rest
	default:
		left := max(time.Duration(since)*time.Millisecond-d.now, 0)
		word = "in " + left.String()
	}
	d.parts = append(d.parts, part{text: word})
	return rest
}

// data adds what Redis has, in an order that does not depend on names.
func (d *describer) data(all data) {
	type named struct {
		name string
		key
	}
	var keys []named
	for _, k := range all {
		keys = append(keys, named{d.renamed(k.name), k})
	}
	slices.SortStableFunc(keys, func(a, b named) int { return strings.Compare(a.name, b.name) })
	for _, k := range keys {
		words := slices.Collect(slices.Chunk(k.words, 1))
		if k.kind == "hash" || k.kind == "zset" {
			words = slices.Collect(slices.Chunk(k.words, 2))
		}
		if k.kind == "hash" || k.kind == "set" {
			slices.SortStableFunc(words, func(a, b []string) int { return cmp.Compare(d.renamed(a[0]), d.renamed(b[0])) })
		}
		d.add("\n" + k.name + " " + k.kind + " " + k.left.String())
		for _, w := range words {
			for _, word := range w {
				d.add(" " + word)
			}
		}
	}
}

// renamed is a text with the names that are known by now.
func (d *describer) renamed(text string) string {
	from := len(d.parts)
	d.add(text)
	var b strings.Builder
	for _, p := range d.parts[from:] {
		b.WriteString(p.text)
	}
	d.parts = d.parts[:from]
	return b.String()
}

// text is all of it.
func (d *describer) text() []byte {
	slices.Sort(d.fences)
	ranks := slices.Compact(d.fences)
	var b bytes.Buffer
	for _, p := range d.parts {
		if p.fence == 0 {
			b.WriteString(p.text)
			continue
		}
		rank, _ := slices.BinarySearch(ranks, p.fence)
		fmt.Fprintf(&b, "fence%d", rank)
	}
	return b.Bytes()
}
