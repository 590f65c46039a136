package page

import (
	benchpage "oversell/internal/bench/page"
	"oversell/internal/lab/show"
)

// shared are the files that the page has in common with the offline reports, by
// their paths below /page/: the lanes of the lab's, and the plots of the bench's.
func shared() (map[string][]byte, error) {
	plots, err := benchpage.UPlot()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{"lanes.js": show.Lanes()}
	for name, text := range plots {
		all["uplot/"+name] = text
	}
	return all, nil
}
