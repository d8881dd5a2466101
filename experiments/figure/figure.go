// Package figure shows results: as tables, and as line figures for papers and
// reports. A figure has curves with bands on linear or logarithmic axes of time,
// bytes or percent, or stacked bars, in panels side by side over one legend; it is
// written as SVG, PNG and PDF, the same input giving the same bytes.
package figure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Series is one curve. Where X or Y is NaN, infinite or, on a logarithmic axis,
// not positive, the curve has a gap.
type Series struct {
	Name   string // in the legend; panels share the colour of a name. "" stays out of it
	X, Y   []float64
	Lo, Hi []float64 // optional band around Y, as error bars if Marks
	Marks  bool      // a mark at every point. A point alone is always marked
	Tag    string    // written beside the last point, where there is room
	Faded  bool      // its colour at 40 %; in grey without a name
}

// Axis describes one axis of a panel.
type Axis struct {
	Label    string
	Log      bool
	Unit     Unit
	Min, Max float64 // equal: automatic
}

// Figure is one panel.
type Figure struct {
	Title  string
	X, Y   Axis
	Series []Series
	Target float64 // a dashed line at this Y, with a mark where each curve reaches it. 0: none
	Beside bool    // upright bars from zero instead of curves, those at one X side by side; X are whole numbers

	// Rows makes stacked horizontal bars, a name each, the first on top. X of a
	// series is then the length of its piece in every row; Y and the Y axis are
	// not looked at.
	Rows []string
}

// Save draws the panels side by side over one legend and writes base.svg and
// base.png, making the folder if need be. It returns the files' names.
func Save(base string, panels ...Figure) (files []string, err error) {
	svg, err := SVG(panels...)
	if err != nil {
		return nil, err
	}
	png, err := PNG(panels...)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{base + ".svg", svg}, {base + ".png", png}} {
		if err := os.WriteFile(f.name, f.content, 0o644); err != nil {
			return files, err
		}
		files = append(files, f.name)
	}
	return files, nil
}

// SVG is the figure as an SVG document.
func SVG(panels ...Figure) ([]byte, error) {
	s, err := newSheet(panels)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := s.svg(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// PNG is the figure as a PNG image of 150 dots per inch.
func PNG(panels ...Figure) ([]byte, error) {
	s, err := newSheet(panels)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := s.png(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// PDF is the figure as a PDF page of its size.
func PDF(panels ...Figure) ([]byte, error) {
	s, err := newSheet(panels)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := s.pdf(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func check(panels []Figure) error {
	if len(panels) == 0 {
		return errors.New("figure: no panels")
	}
	for _, p := range panels {
		for _, s := range p.Series {
			n := len(s.X)
			if p.Rows != nil {
				if n != len(p.Rows) {
					return fmt.Errorf("figure: series %q has %d pieces for %d bars", s.Name, n, len(p.Rows))
				}
				continue
			}
			if len(s.Y) != n {
				return fmt.Errorf("figure: series %q has %d x and %d y", s.Name, n, len(s.Y))
			}
			if len(s.Lo) != len(s.Hi) || (s.Lo != nil && len(s.Lo) != n) {
				return fmt.Errorf("figure: series %q has %d points and a band of %d and %d", s.Name, n, len(s.Lo), len(s.Hi))
			}
		}
	}
	return nil
}
