package texts

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// form is an English sentence with values in braces, and its translation.
type form struct {
	names   []string // of the values, in the order of the sentence; a name may occur twice
	text    string
	before  string // the text before the first value
	after   string // the text after the last value
	letters int    // outside the braces
	source  string
	pattern *regexp.Regexp // compiled when it is first needed
}

// translation is the translation of a sentence, with the number of bytes that are left in English.
type translation struct {
	text   string
	quoted int
	found  bool
}

var braces = regexp.MustCompile(`\{(\w+)\}`)

// A value is an actor (A, or A/1 for a caller in process A), a number, a time, or a list of them.
const (
	one   = `(?:[A-Z](?:/\d+)?|nobody|\d+(?:\.\d+)?(?:µs|ms|s|m\d+s)?)`
	value = one + `(?:, ` + one + `)*(?: and ` + one + `)?`
)

// formsOf returns forms for sentences and their translations. Those with the most letters come
// first.
func formsOf(said map[string]string) []*form {
	var all []*form
	for english, text := range said {
		all = append(all, newForm(english, text))
	}
	slices.SortFunc(all, func(a, b *form) int {
		return cmp.Or(cmp.Compare(b.letters, a.letters), cmp.Compare(a.source, b.source))
	})
	return all
}

func newForm(english, text string) *form {
	f := &form{text: text}
	parts := braces.Split(english, -1)
	f.before, f.after = parts[0], parts[len(parts)-1]
	var source strings.Builder
	for i, m := range braces.FindAllStringSubmatch(english, -1) {
		source.WriteString(regexp.QuoteMeta(parts[i]))
		if f.names = append(f.names, m[1]); isValue(m[1]) {
			source.WriteString("(" + value + ")")
		} else {
			source.WriteString("(.+?)")
		}
	}
	f.source = "(?s)^" + source.String() + regexp.QuoteMeta(f.after) + "$"
	f.letters = len(strings.Join(parts, ""))
	return f
}

// The names in the braces of a form: a number stands for a value, text and more stand for
// sentences, and any other name for a quote, such as a command, an error or a name.
func isValue(name string) bool    { return strings.Trim(name, "0123456789") == "" }
func isSentence(name string) bool { return name == "text" || name == "more" }

// match returns the parts of a sentence that match the braces of the form, by name.
func (f *form) match(english string) (map[string]string, bool) {
	if len(f.names) == 0 {
		return nil, english == f.before
	}
	if !strings.HasPrefix(english, f.before) || !strings.HasSuffix(english, f.after) {
		return nil, false
	}
	if f.pattern == nil {
		f.pattern = regexp.MustCompile(f.source)
	}
	found := f.pattern.FindStringSubmatch(english)
	if found == nil {
		return nil, false
	}
	values := make(map[string]string)
	for i, name := range f.names {
		if before, again := values[name]; again && before != found[i+1] {
			return nil, false
		}
		values[name] = found[i+1]
	}
	return values, true
}

// translate finds the form that quotes the least of a sentence, because quotes stay English, and
// fills in its translation.
func (l *Language) translate(english string) translation {
	if t, known := l.translated[english]; known {
		return t
	}
	l.translated[english] = translation{} // a sentence must not match a part of itself
	var best translation
	for _, f := range l.forms {
		values, ok := f.match(english)
		if !ok {
			continue
		}
		t := l.fill(f, values)
		if t.found && (!best.found || t.quoted < best.quoted) {
			best = t
		}
		if best.found && best.quoted == 0 {
			break
		}
	}
	l.translated[english] = best
	return best
}

// fill puts values into the translation of a form. The result is not found if one of the values is
// a sentence without a translation.
func (l *Language) fill(f *form, values map[string]string) translation {
	quoted := 0
	inside := make(map[string]string)
	for name, english := range values {
		t := translation{text: english, quoted: len(english), found: true}
		switch {
		case isValue(name):
			t.text, t.quoted = l.Told(english), 0
		case isSentence(name):
			t = l.translate(english)
		}
		if !t.found {
			return translation{}
		}
		inside[name] = t.text
		quoted += t.quoted
	}
	text := braces.ReplaceAllStringFunc(f.text, func(name string) string { return inside[strings.Trim(name, "{}")] })
	return translation{text, quoted, true}
}
