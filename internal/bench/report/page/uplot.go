package page

import (
	"io/fs"
	"path"
)

// UPlot returns the files of the plotting library and its licence by name, for other
// pages that plot.
func UPlot() (map[string][]byte, error) {
	const dir = "assets/uplot"
	entries, err := fs.ReadDir(assets, dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if files[e.Name()], err = assets.ReadFile(path.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}
