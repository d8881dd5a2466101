package figure

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	keyThumb  = vg.Length(24) // the piece of line shown
	keyGap    = vg.Length(5)  // between it and the name
	keyApart  = vg.Length(22) // between columns
	keyHeight = vg.Length(14)
)

// entry is a line of the legend.
type entry struct {
	name string
	look look // here
	own  look // of its series, where they are not faded
	line bool
	mark bool
	bar  bool
}

// legend is laid out in columns as even as the width allows, read by rows.
type legend struct {
	entries []entry
	columns []vg.Length // widths
}

func newLegend(entries []entry, width vg.Length) legend {
	l := legend{entries: entries}
	if len(entries) == 0 {
		return l
	}
	for n := len(entries); n > 0; n-- {
		if l.columns = columns(entries, n); n == 1 || l.width() <= width {
			break
		}
	}
	// The same number of rows with fewer columns leaves no ragged end.
	rows := l.rows()
	l.columns = columns(entries, (len(entries)+rows-1)/rows)
	return l
}

// columns gives the widths of n columns.
func columns(entries []entry, n int) []vg.Length {
	w := make([]vg.Length, n)
	for i, e := range entries {
		w[i%n] = max(w[i%n], keyThumb+keyGap+keyText.Width(e.name))
	}
	return w
}

func (l legend) width() (w vg.Length) {
	for _, c := range l.columns {
		w += c
	}
	return w + keyApart*vg.Length(len(l.columns)-1)
}

func (l legend) rows() int {
	if len(l.columns) == 0 {
		return 0
	}
	return (len(l.entries) + len(l.columns) - 1) / len(l.columns)
}

func (l legend) height() vg.Length { return keyHeight * vg.Length(l.rows()) }

// draw draws the legend centred under the top of the canvas.
func (l legend) draw(c draw.Canvas) {
	left := c.Center().X - l.width()/2
	x := left
	for i, e := range l.entries {
		col := i % len(l.columns)
		if col == 0 {
			x = left
		}
		y := c.Max.Y - keyHeight*(vg.Length(i/len(l.columns))+0.5)
		e.drawThumb(c, x, y)
		c.FillText(keyText, vg.Point{X: x + keyThumb + keyGap, Y: y}, e.name)
		x += l.columns[col] + keyApart
	}
}

// drawThumb draws what stands before a name in the legend.
func (e entry) drawThumb(c draw.Canvas, x, y vg.Length) {
	if e.line {
		c.StrokeLine2(e.look.line, x, y, x+keyThumb, y)
	}
	if e.mark {
		c.DrawGlyphNoClip(e.look.mark, vg.Point{X: x + keyThumb/2, Y: y})
	}
	if e.bar {
		box := around(vg.Point{X: x + keyThumb/2, Y: y}, keyThumb/3, 4)
		c.FillPolygon(e.look.mark.Color, []vg.Point{box.Min, {X: box.Max.X, Y: box.Min.Y}, box.Max, {X: box.Min.X, Y: box.Max.Y}})
	}
}
