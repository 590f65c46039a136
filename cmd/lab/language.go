package main

import (
	"fmt"
	"io"

	"oversell/internal/lab/show"
	pagetexts "oversell/internal/page/texts"
	"oversell/internal/present"
)

// speak loads the texts of the language that -lang names.
func (o *options) speak() error {
	language, err := pagetexts.In(o.lang)
	if err != nil {
		return fmt.Errorf("-lang: %w", err)
	}
	o.language = language
	return nil
}

// style is how reports are shown on w, or in a file if w is nil.
func (o options) style(w io.Writer) show.Style {
	return show.Style{Style: present.Style{Colour: w != nil && coloured(w), Language: o.language}}
}
