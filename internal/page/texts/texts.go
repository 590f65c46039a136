// Package texts holds the texts of the page, and translates terminal output and offline reports
// into Chinese with the same tables that the page's scripts use (text.js).
//
// en.json and zh.json contain the texts of the page by their keys. zh.told.json contains the
// translations of sentences that the programs write in English, by their format (see package
// message). zh.lab.json and zh.bench.json contain the translations of sentences that occur only in
// the reports of the lab and of the bench, or that are told differently there. The page need not load
// these two files.
package texts

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.json
var files embed.FS

//go:embed en.json zh.json zh.told.json
var ofPage embed.FS

// OfPage returns the files that the page loads.
func OfPage() fs.FS { return ofPage }

// Read returns the texts of a file, such as "zh.told", by their keys.
func Read(name string) (map[string]string, error) {
	text, err := files.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("reading the texts: %w", err)
	}
	var texts map[string]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, fmt.Errorf("reading the texts in %s.json: %w", name, err)
	}
	return texts, nil
}

// English is the language of the texts in the programs.
const English = "en"

// Languages returns the languages that can be chosen, English first.
func Languages() []string { return []string{English, "zh"} }

// Language is a language into which English is translated; nil is English. It is safe for concurrent
// use, unless Listen returned it.
type Language struct {
	name    string
	texts   map[string]string
	told    map[string]string // by English format
	listens bool

	// Untold lists the texts without a translation that Say was asked for. Only the Language that
	// Listen returns records them.
	Untold []string
}

// In returns a language with the sentences of the lab's reports, or nil for English.
func In(name string) (*Language, error) { return in(name, ".lab") }

// OfBench is like In, but returns a language with the sentences of the bench's reports. An English
// word that occurs in both reports, such as a verdict, can have two Chinese translations.
func OfBench(name string) (*Language, error) { return in(name, ".bench") }

func in(name, reports string) (*Language, error) {
	if name == English {
		return nil, nil
	}
	if !slices.Contains(Languages(), name) {
		return nil, fmt.Errorf("%q is no language; allowed: %s", name, strings.Join(Languages(), ", "))
	}
	l := &Language{name: name, told: make(map[string]string)}
	var err error
	if l.texts, err = Read(name); err != nil {
		return nil, err
	}
	for _, file := range []string{".told", reports} {
		some, err := Read(name + file)
		if err != nil {
			return nil, err
		}
		maps.Copy(l.told, some)
	}
	return l, nil
}

// Tag returns the tag of the language, such as zh-CN, as in the lang attribute of a page.
func (l *Language) Tag() string {
	if l == nil {
		return English
	}
	return map[string]string{"zh": "zh-CN"}[l.name]
}

// Named returns the text with a key, or the English text if the language lacks it.
func (l *Language) Named(key, english string) string {
	if l == nil {
		return english
	}
	return cmp.Or(l.texts[key], english)
}

// Say returns the translation of a sentence or of a format, or the English text if it has none.
func (l *Language) Say(english string) string {
	if l == nil {
		return english
	}
	said := cmp.Or(l.told[english], english)
	if l.listens && said == english && word.MatchString(english) {
		l.Untold = append(l.Untold, english)
	}
	return said
}

// Listen returns the Chinese that the function of (In or OfBench) returns. It records the texts without
// a translation. The tests of the reports use it. It panics on an error.
func Listen(of func(name string) (*Language, error)) *Language {
	chinese, err := of("zh")
	if err != nil {
		panic(err)
	}
	chinese.listens = true
	return chinese
}

var word = regexp.MustCompile(`[A-Za-z]{2,}`)
