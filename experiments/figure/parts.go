package figure

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg/draw"
)

// Part is a piece of a figure whose place a page finds for itself.
type Part struct {
	Name string // of a panel its title, of a line of the legend the series
	SVG  []byte // without XML declaration, to stand within a page
}

// Parts are the panels of a figure one by one, and its legend, in the looks
// they have together. A colour is written as var(--fig-NAME,#RRGGBB), so that a
// page may put its own in its place by a style; [Colours] lists them.
func Parts(panels ...Figure) (figures, legend []Part, err error) {
	s, err := newSheet(panels)
	if err != nil {
		return nil, nil, err
	}
	for i, f := range panels {
		width, height := s.frame.X+2*margin, s.frame.Y+2*margin
		c := newLaid(width, height)
		frame := draw.Crop(draw.New(c), margin, -margin, margin, -margin)
		s.drawPanel(i, frame, f.Title != "", f.X.Label != "")
		svg, err := inline(c)
		if err != nil {
			return nil, nil, err
		}
		figures = append(figures, Part{f.Title, svg})
	}
	for _, e := range s.key.entries {
		c := newLaid(keyThumb, keyHeight)
		area := draw.New(c)
		e.drawThumb(area, 0, keyHeight/2)
		svg, err := inline(c)
		if err != nil {
			return nil, nil, err
		}
		legend = append(legend, Part{e.name, svg})
	}
	return figures, legend, nil
}

// Colours are what a page may choose: their names, and what they are on paper.
func Colours() map[string]string {
	out := map[string]string{
		"text": hex(color.Gray{0x00}), "tick": hex(xTickText.Color), "axis": hex(axisLine.Color), "grid": hex(gridLine.Color),
		"aim": hex(aimText.Color), "faded": hex(look{}.faded(false).mark.Color), "aside": hex(aimLine.Color),
	}
	for i, c := range palette {
		if i != 6 { // black is the text's
			out[fmt.Sprintf("series-%d", i+1)] = hex(c)
		}
	}
	return out
}

func hex(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8)
}

// chosen leaves the choice of every colour to the page.
var chosen = func() *strings.Replacer {
	var pairs []string
	for name, colour := range Colours() {
		pairs = append(pairs, colour, "var(--fig-"+name+","+colour+")")
	}
	return strings.NewReplacer(pairs...)
}()

// inline is a canvas as an element of a page that scales it.
func inline(c *laid) ([]byte, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	s := chosen.Replace(string(addFallbacks(b.Bytes())))
	at := strings.Index(s, "<svg")
	if at < 0 {
		return nil, errors.New("figure: the canvas wrote no SVG")
	}
	return []byte(strings.TrimSpace(s[at:])), nil
}
