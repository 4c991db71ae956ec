package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// picture is an image file of offline paper figures.
type picture struct {
	Title string
	Data  []byte
}

// readFigures reads Fig. 1 to 3, of which at least one must exist.
func readFigures(dir string) ([]picture, error) {
	if dir == "" {
		return nil, nil
	}
	var all []picture
	for _, f := range []struct{ file, title string }{
		{"fig1-phase-portraits.png", "Fig. 1: phase portraits"},
		{"fig2-spectral-radius.png", "Fig. 2: effective spectral radius"},
		{"fig3-lyapunov.png", "Fig. 3: maximum local Lyapunov exponent"},
	} {
		data, err := os.ReadFile(filepath.Join(dir, f.file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) {
			return nil, fmt.Errorf("report: %s is no PNG file", filepath.Join(dir, f.file))
		}
		all = append(all, picture{f.title, data})
	}
	if all == nil {
		return nil, fmt.Errorf("report: %s holds none of the files of offline paper figures (fig1-phase-portraits.png, ...)", dir)
	}
	return all, nil
}
