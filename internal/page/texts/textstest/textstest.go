// Package textstest finds what a report says in English alone.
package textstest

import (
	"regexp"
	"testing"

	"oversell/internal/page/texts"
)

// Listener is Chinese, and keeps what it could not translate.
type Listener struct {
	*texts.Language
	Untold []string
}

// New returns a listener with the texts of a function such as texts.OfBench.
func New(t testing.TB, of func(name string) (*texts.Language, error)) *Listener {
	t.Helper()
	chinese, err := of("zh")
	if err != nil {
		t.Fatal(err)
	}
	return &Listener{Language: chinese}
}

var english = regexp.MustCompile(`[A-Za-z]{2,}`)

// Told translates a sentence.
func (l *Listener) Told(said string) string {
	out := l.Language.Told(said)
	if out == said && english.MatchString(said) {
		l.Untold = append(l.Untold, said)
	}
	return out
}
