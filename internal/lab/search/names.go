package search

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stale is the first number of what a buyer has drawn and does not know any more.
const stale = 500

// rename gives what a buyer was told, and what it has drawn, the names that they have in
// the node that it is at now.
func (s *state) rename(i int, names map[string]string) {
	b := &s.buyers[i]
	fences := make([]int64, len(b.fences))
	for from, to := range names {
		if k, ok := fenceNumber(from); ok && k < len(b.fences) {
			other, _ := fenceNumber(to)
			for other >= len(fences) {
				fences = append(fences, 0)
			}
			fences[other] = b.fences[k]
		}
	}
	b.fences = trimmed(fences)
	drawn := make(map[string]string)
	change := false
	for from, to := range names {
		if strings.HasPrefix(from, "~.") {
			drawn[global(from, i)] = global(to, i)
			change = change || from != to
		}
	}
	if !change && s.known(i, drawn) {
		return
	}
	used := slices.Collect(maps.Values(drawn))
	anew := func(text string) string { return renamed(text, letter(i), drawn, &used) }
	s.data = s.data.renamed(anew)
	for j := range s.buyers {
		s.buyers[j].asked = s.buyers[j].asked.renamed(anew)
	}
}

// known reports whether all that a buyer has drawn and that Redis has is among these names.
func (s *state) known(i int, drawn map[string]string) bool {
	var used []string
	size := len(drawn)
	all := maps.Clone(drawn)
	for _, k := range s.data {
		renamed(k.name, letter(i), all, &used)
		for _, word := range k.words {
			renamed(word, letter(i), all, &used)
		}
	}
	return len(all) == size
}

// renamed replaces the names of what a buyer has drawn. What is not among them gets a name
// that the buyer does not know.
func renamed(text, whose string, drawn map[string]string, used *[]string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "~"+whose)
		if i < 0 {
			break
		}
		b.WriteString(text[:i])
		text = text[i:]
		stand, ok := standInAt(text)
		if !ok {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		text = text[len(stand):]
		name, ok := drawn[stand]
		if !ok && stand[2] == '0' {
			name, ok = stand, true
		}
		for number := stale; !ok; number++ {
			name = strings.Replace(standIn(number, len(stand)), "~.", "~"+whose, 1)
			if ok = !slices.Contains(*used, name); ok {
				drawn[stand] = name
				*used = append(*used, name)
			}
		}
		b.WriteString(name)
	}
	b.WriteString(text)
	return b.String()
}

// renamed is the data with each name replaced.
func (d data) renamed(anew func(string) string) data {
	out := d.each(anew)
	for i := range out {
		out[i].name = anew(out[i].name)
	}
	slices.SortFunc(out, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return out
}

// forget forgets the tokens that the buyer does not need any more.
func (b *buyer) forget() {
	if len(b.fences) == 0 {
		return
	}
	kept := make([]int64, len(b.fences))
	for _, ref := range b.node.shape(0).refs {
		if k, ok := fenceNumber(ref); ok && k < len(kept) {
			kept[k] = b.fences[k]
		}
	}
	b.fences = trimmed(kept)
}

// trimmed is without the zeroes at the end.
func trimmed(fences []int64) []int64 {
	for len(fences) > 0 && fences[len(fences)-1] == 0 {
		fences = fences[:len(fences)-1]
	}
	return fences
}

// fenceNumber is the place of a token among those that a buyer knows, by its name.
func fenceNumber(ref string) (int, bool) {
	name, err := strconv.ParseInt(ref, 10, 64)
	i := int((name-epoch.UnixMicro())/apart) - 1
	return i, err == nil && i >= 0
}
