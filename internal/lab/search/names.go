package search

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stale is the first number for random values that the buyer's program no longer knows.
const stale = 500

// rename gives a buyer's tokens and random values the names that they have in its new history.
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
	for from, to := range names {
		if strings.HasPrefix(from, "~.") {
			drawn[global(from, i)] = global(to, i)
		}
	}
	used := slices.Collect(maps.Values(drawn))
	anew := func(text string) string { return renamed(text, letter(i)[0], drawn, &used) }
	s.data = s.data.renamed(anew)
	for j := range s.buyers {
		s.buyers[j].asked = s.buyers[j].asked.renamed(anew)
	}
}

// renamed replaces the names of a buyer's random values. A value that is not in drawn gets a name
// that the buyer does not know.
func renamed(text string, whose byte, drawn map[string]string, used *[]string) string {
	return replaceStandIns(text, func(stand string) string {
		name, ok := drawn[stand]
		if !ok && (stand[1] != whose || stand[2] == '0') {
			return stand
		}
		for number := stale; !ok; number++ {
			name = strings.Replace(standIn(number, len(stand)), "~.", "~"+string(whose), 1)
			if ok = !slices.Contains(*used, name); ok {
				drawn[stand] = name
				*used = append(*used, name)
			}
		}
		return name
	})
}

// renamed returns the data with each name replaced.
func (d data) renamed(anew func(string) string) data {
	out := d.each(anew)
	for i := range out {
		out[i].name = anew(out[i].name)
	}
	slices.SortFunc(out, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return out
}

// forget drops the tokens that the buyer no longer needs.
func (b *buyer) forget() {
	if len(b.fences) == 0 {
		return
	}
	kept := make([]int64, len(b.fences))
	for _, ref := range b.history.shape(0).refs {
		if k, ok := fenceNumber(ref); ok && k < len(kept) {
			kept[k] = b.fences[k]
		}
	}
	b.fences = trimmed(kept)
}

func trimmed(fences []int64) []int64 {
	for len(fences) > 0 && fences[len(fences)-1] == 0 {
		fences = fences[:len(fences)-1]
	}
	return fences
}

// fenceNumber returns the index in buyer.fences of the token with a given name.
func fenceNumber(ref string) (int, bool) {
	name, err := strconv.ParseInt(ref, 10, 64)
	i := int((name-epoch.UnixMicro())/apart) - 1
	return i, err == nil && i >= 0
}

// A fencing token is the time of Redis in microseconds, or one more than the previous token. Only
// the order of tokens matters, so in each state they are renumbered, and all of them are before the
// time of the clock. A buyer has its own name for each token that it received. The order of these
// names does not matter, because a buyer only passes tokens on.

// apart is the distance between two tokens. It leaves room for a buyer that adds to a token before
// it sends the token.
const apart = 1000

var digits = regexp.MustCompile(`[0-9]+`)

// numbers replaces the times of Redis in a text. Moment maps times in milliseconds, and fence maps
// times in microseconds, which are fencing tokens. A nil function leaves such times unchanged.
func numbers(text string, moment, fence func(int64) int64) string {
	const near = "9466" // prefix of times near epoch
	if !strings.Contains(text, near) {
		return text
	}
	return digits.ReplaceAllStringFunc(text, func(word string) string {
		of := moment
		switch len(word) {
		case len("946684800000"):
		case len("946684800000000"):
			of = fence
		default:
			return word
		}
		if of == nil || !strings.HasPrefix(word, near) {
			return word
		}
		value, _ := strconv.ParseInt(word, 10, 64) // it consists of digits and fits into an int64
		return strconv.FormatInt(of(value), 10)
	})
}

// told replaces the tokens in a reply by the buyer's names for them.
func (b *buyer) told(reply string) string {
	return numbers(reply, nil, func(value int64) int64 {
		i := slices.Index(b.fences, value)
		if i < 0 { // a new token
			i = len(b.fences)
			b.fences = append(slices.Clone(b.fences), value)
		}
		return epoch.UnixMicro() + int64(i+1)*apart
	})
}

// actual replaces the buyer's names in an argument by the tokens.
func (b *buyer) actual(arg string) string {
	return numbers(arg, nil, func(name int64) int64 {
		more := name - epoch.UnixMicro()
		i := int(more/apart) - 1
		if i < 0 || i >= len(b.fences) {
			return name // not one of its tokens
		}
		return b.fences[i] + more%apart
	})
}

// rank renumbers all tokens, and keeps their order.
func (s *state) rank() {
	var all []int64
	for _, b := range s.buyers {
		for _, value := range b.fences {
			if value != 0 {
				all = append(all, value)
			}
		}
	}
	for _, k := range s.data {
		for _, word := range k.words {
			numbers(word, nil, func(value int64) int64 {
				all = append(all, value)
				return value
			})
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	anew := func(value int64) int64 {
		i, _ := slices.BinarySearch(all, value)
		return epoch.UnixMicro() - int64(len(all)-i)*apart
	}
	if !slices.ContainsFunc(all, func(value int64) bool { return anew(value) != value }) {
		return
	}
	s.data = s.data.each(func(word string) string { return numbers(word, nil, anew) })
	for i := range s.buyers {
		b := &s.buyers[i]
		b.fences = slices.Clone(b.fences)
		for j, value := range b.fences {
			if value != 0 {
				b.fences[j] = anew(value)
			}
		}
	}
}

func (d data) each(f func(word string) string) data {
	out := slices.Clone(d)
	for i, k := range out {
		for j, word := range k.words {
			if now := f(word); now != word {
				k.words = slices.Clone(k.words)
				k.words[j] = now
				out[i].words = k.words
			}
		}
	}
	return out
}

// earlier returns the data with all times shifted back by the given duration. No time is shifted to
// before the time of the clock, because all past times count as the same.
func (d data) earlier(by time.Duration) data {
	return d.each(func(word string) string {
		return numbers(word, func(ms int64) int64 { return max(ms-by.Milliseconds(), epoch.UnixMilli()) }, nil)
	})
}
