package page

import (
	benchpage "oversell/internal/bench/report/page"
	"oversell/internal/lab/show"
	"oversell/internal/page/texts"
)

// shared returns the files that the page shares with the terminal and the offline reports, by
// their paths below /page/: the texts, the lab's lanes, and the library of the bench's plots.
func shared() (map[string][]byte, error) {
	plots, err := benchpage.UPlot()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{"lanes.js": show.Lanes()}
	for name, text := range plots {
		all["uplot/"+name] = text
	}
	said, err := texts.OfPage()
	if err != nil {
		return nil, err
	}
	for name, text := range said {
		all["texts/"+name] = text
	}
	return all, nil
}
