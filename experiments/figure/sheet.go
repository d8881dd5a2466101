package figure

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	dpi      = 150
	margin   = vg.Length(6)
	panelGap = vg.Length(18)
	keyAbove = vg.Length(8) // between panels and legend
)

// sheet is a whole figure: panels in rows of up to three, the legend below.
type sheet struct {
	panels        []Figure
	looks         [][]look // of each panel's series
	key           legend
	columns       int
	frame         vg.Point // size of a panel
	width, height vg.Length
}

func newSheet(panels []Figure) (*sheet, error) {
	if err := check(panels); err != nil {
		return nil, err
	}
	s := &sheet{panels: panels, columns: len(panels), frame: vg.Point{X: 4.1 * vg.Inch, Y: 3 * vg.Inch}}
	if len(panels) == 1 {
		s.frame = vg.Point{X: 5.2 * vg.Inch, Y: 3.4 * vg.Inch}
	}
	if len(panels) > 3 {
		s.columns = min(3, int(math.Ceil(math.Sqrt(float64(len(panels))))))
	}
	s.frame.Y = s.frameHeight()
	rows := vg.Length((len(panels) + s.columns - 1) / s.columns)
	s.width = vg.Length(s.columns)*(s.frame.X+panelGap) - panelGap + 2*margin
	s.height = rows*(s.frame.Y+panelGap) - panelGap + 2*margin

	s.key = newLegend(s.assign(), s.width-2*margin)
	if h := s.key.height(); h > 0 {
		s.height += h + keyAbove
	}
	s.width = max(s.width, s.key.width()+2*margin)
	return s, nil
}

// assign gives every name a look, in order of appearance, and returns the
// legend's entries.
func (s *sheet) assign() (entries []entry) {
	seen := map[string]int{} // position among entries
	used := 0
	for _, p := range s.panels {
		var looks []look
		for _, r := range p.Series {
			line, mark := len(r.X) > 1, r.Marks && len(r.X) > 0 || len(r.X) == 1
			if p.Rows != nil {
				line, mark = false, false
			}
			bar := p.Rows != nil || p.Beside && len(r.X) > 0
			if p.Beside {
				line, mark = false, false
			}
			if i, ok := seen[r.Name]; ok && r.Name != "" {
				looks = append(looks, entries[i].own)
				entries[i].line = entries[i].line || line
				entries[i].mark = entries[i].mark || mark
				entries[i].bar = entries[i].bar || bar
				continue
			}
			l := lookAt(used)
			used++
			looks = append(looks, l)
			if r.Name != "" {
				seen[r.Name] = len(entries)
				if r.Faded {
					l = l.faded(true)
				}
				entries = append(entries, entry{r.Name, l, looks[len(looks)-1], line, mark, bar})
			}
		}
		s.looks = append(s.looks, looks)
	}
	// A series without a point keeps its look for other figures, and needs no
	// line in the legend.
	return slices.DeleteFunc(entries, func(e entry) bool { return !e.line && !e.mark && !e.bar })
}

func (s *sheet) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())

	titles, xLabels := false, false
	for _, p := range s.panels {
		titles = titles || p.Title != ""
		xLabels = xLabels || p.X.Label != ""
	}
	left := (s.width - vg.Length(s.columns)*(s.frame.X+panelGap) + panelGap) / 2
	for i := range s.panels {
		col, row := vg.Length(i%s.columns), vg.Length(i/s.columns)
		x, y := left+col*(s.frame.X+panelGap), s.height-margin-row*(s.frame.Y+panelGap)
		frame := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: y - s.frame.Y}, Max: vg.Point{X: x + s.frame.X, Y: y},
		}}
		s.drawPanel(i, frame, titles, xLabels)
	}
	below := draw.Crop(c, 0, 0, 0, -(s.height - margin - s.key.height()))
	s.key.draw(below)
}

func (s *sheet) drawPanel(i int, frame draw.Canvas, titles, xLabels bool) {
	p := newPanel(s.panels[i], frame, titles, xLabels)
	if p.Rows != nil {
		p.drawBars(s.looks[i])
		return
	}
	p.draw(s.looks[i])
}

// frameHeight is that of curves, unless there are nothing but bars.
func (s *sheet) frameHeight() vg.Length {
	var most vg.Length
	for _, f := range s.panels {
		if f.Rows == nil {
			return s.frame.Y
		}
		most = max(most, barsHeight(len(f.Rows)))
	}
	return most
}

func (s *sheet) png(w io.Writer) error {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(dpi))}
	s.draw(draw.New(c))
	_, err := c.WriteTo(w)
	return err
}

func (s *sheet) svg(w io.Writer) error {
	c := newLaid(s.width, s.height)
	s.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(addFallbacks(b.Bytes()))
	return err
}

// addFallbacks names fonts to take in place of Liberation Sans: Arial has its
// widths, and viewers without either find some sans serif.
func addFallbacks(svg []byte) []byte {
	const name = "font-family:Liberation Sans"
	return bytes.ReplaceAll(svg, []byte(name), []byte(name+", Arial, sans-serif"))
}
