package search

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// identity identifies a state. States with the same identity are merged. Buyers are
// interchangeable, so the identity stays the same if two buyers change places.
type identity struct {
	sum  [sha256.Size]byte
	only limit // only.buyer is a place, not an index
}

func (s *state) id() identity {
	var least []byte
	var only limit
	for _, order := range s.orders() {
		d := describer{state: s, places: make([]int, len(order))}
		text := d.describe(order)
		limited := s.only
		if limited.kind == thenStep {
			limited.buyer = d.places[s.only.buyer]
		} else {
			limited.buyer = 0
		}
		switch c := bytes.Compare(text, least); {
		case least == nil || c < 0:
			least, only = text, limited
		case c == 0:
			only.buyer = min(only.buyer, limited.buyer)
		}
	}
	return identity{sha256.Sum256(least), only}
}

// orders returns the sequences of buyers that id compares. Buyers are sorted by look, and all
// permutations of buyers that look the same are included.
func (s *state) orders() [][]int {
	looks := make([][]byte, len(s.buyers))
	order := make([]int, len(s.buyers))
	for i := range s.buyers {
		looks[i], order[i] = s.look(i), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(looks[a], looks[b]) })
	all := [][]int{nil}
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && bytes.Equal(looks[order[from]], looks[order[to]]) {
			to++
		}
		var longer [][]int
		for _, head := range all {
			for _, tail := range permutations(order[from:to]) {
				longer = append(longer, append(slices.Clone(head), tail...))
			}
		}
		all, from = longer, to
	}
	return all
}

func permutations(of []int) [][]int {
	if len(of) < 2 {
		return [][]int{of}
	}
	var all [][]int
	for _, rest := range permutations(of[1:]) {
		for i := 0; i <= len(rest); i++ {
			all = append(all, slices.Insert(slices.Clone(rest), i, of[0]))
		}
	}
	return all
}

// look describes a buyer, without the names of random values.
func (s *state) look(i int) []byte {
	b := &s.buyers[i]
	switch {
	case b.history == nil:
		return []byte("absent")
	case b.dead:
		return []byte("dead")
	}
	sum := b.history.shape(b.idle).sum
	return append(strconv.AppendBool(strconv.AppendBool(nil, b.frozen), s.inVain(i)), sum[:]...)
}

// describer describes a state. Random values are numbered in the order in which they appear, and
// owners are replaced by the places of their buyers.
type describer struct {
	state  *state
	places []int
	drawn  []string
	text   []byte
}

// describe describes the state with the buyers in the given order.
func (d *describer) describe(order []int) []byte {
	s := d.state
	for place, i := range order {
		d.places[i] = place
	}
	for place, i := range order {
		b := &s.buyers[i]
		d.text = append(d.text, byte('0'+place))
		d.text = append(d.text, s.look(i)...)
		if b.alive() {
			for _, ref := range b.history.shape(b.idle).refs {
				d.add(b.global(ref, i))
			}
		}
		for _, t := range b.txs {
			if t != nil {
				d.text = fmt.Appendf(d.text, " tx %t %d", t.stale, len(t.sent))
			}
		}
		d.text = append(d.text, '\n')
	}
	for _, w := range s.waits {
		d.text = fmt.Appendf(d.text, "wait %d %d %t ", d.places[w.buyer], w.left, w.lost)
		d.add(s.buyers[w.buyer].global(w.cmd.Text, w.buyer))
		d.text = append(d.text, '\n')
	}
	d.data()
	holder := s.holder
	if holder != nobody {
		holder = d.places[holder]
	}
	for _, n := range []int{holder, s.sold(), s.left.Freezes, s.left.Kills, s.left.Losses} {
		d.text = append(d.text, byte('1'+n))
	}
	return d.text
}

func (d *describer) add(text string) { d.text = append(d.text, d.renamed(text)...) }

func (d *describer) renamed(text string) string { return replaceStandIns(text, d.name) }

// replaceStandIns replaces each stand-in in a text, from the left to the right.
func replaceStandIns(text string, by func(stand string) string) string {
	head, rest, found := strings.Cut(text, "~")
	if !found {
		return text
	}
	inner, tail, closed := strings.Cut(rest, "~")
	if !closed || len(inner) < 2 || !strings.Contains(".ABC", inner[:1]) {
		return head + "~" + replaceStandIns(rest, by)
	}
	return head + by(text[len(head):len(text)-len(tail)]) + replaceStandIns(tail, by)
}

// name returns the name of a stand-in. For an owner it is the owner's place; for a random value it
// is a number.
func (d *describer) name(stand string) string {
	if stand[2] == '0' {
		return "~" + strconv.Itoa(d.places[stand[1]-'A']) + ".0~"
	}
	i := slices.Index(d.drawn, stand)
	if i < 0 {
		i = len(d.drawn)
		d.drawn = append(d.drawn, stand)
	}
	return "~" + strconv.Itoa(i) + "~"
}

// data adds the data in Redis to the text, in an order that does not depend on names.
func (d *describer) data() {
	type named struct {
		name string
		key
	}
	var keys []named
	for _, k := range d.state.data {
		keys = append(keys, named{d.renamed(k.name), k})
	}
	slices.SortStableFunc(keys, func(a, b named) int { return strings.Compare(a.name, b.name) })
	for _, k := range keys {
		d.text = append(append(append(d.text, k.name...), ' '), k.kind...)
		d.text = strconv.AppendInt(d.text, int64(k.left), 10)
		words := k.words
		if k.kind == "hash" && len(words) > 2 {
			items := slices.Collect(slices.Chunk(words, 2))
			slices.SortStableFunc(items, func(a, b []string) int {
				return cmp.Compare(d.renamed(a[0]), d.renamed(b[0]))
			})
			words = slices.Concat(items...)
		}
		for _, word := range words {
			d.text = append(d.text, ' ')
			d.add(word)
		}
		d.text = append(d.text, '\n')
	}
}

// shape is the hash of a text without the names that differ from buyer to buyer, together with
// those names.
type shape struct {
	sum  [16]byte
	refs []string // stand-ins and names of tokens
}

// shapeOf returns the shape of a text.
func shapeOf(text string) shape {
	var sh shape
	text = numbers(text, nil, func(name int64) int64 {
		sh.refs = append(sh.refs, strconv.FormatInt(name, 10))
		return 0
	})
	text = replaceStandIns(text, func(stand string) string {
		sh.refs = append(sh.refs, stand)
		return "~"
	})
	sum := sha256.Sum256([]byte(text))
	sh.sum = [16]byte(sum[:16])
	return sh
}
