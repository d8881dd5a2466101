package figure

import (
	"gonum.org/v1/plot/vg"
)

const (
	barPitch = vg.Length(22) // from bar to bar
	barThick = vg.Length(13)
)

// barsHeight is the height of a panel of n bars with its title and axis.
func barsHeight(n int) vg.Length { return 62 + barPitch*vg.Length(n) }

// barScales give the lengths of bars room, and every bar a row of height 1.
func (f Figure) barScales() (x, y scale) {
	totals := []float64{0}
	for i := range f.Rows {
		total := 0.0
		for _, s := range f.Series {
			if f.X.has(s.X[i]) && s.X[i] > 0 {
				total += s.X[i]
			}
		}
		totals = append(totals, total)
	}
	a := f.X
	a.Log = false // lengths are read from zero
	return a.scale(totals), scale{max: float64(max(1, len(f.Rows)))}
}

// rowTicks name the bars, cut to the room there is.
func (f Figure) rowTicks(room vg.Length) []tick {
	var out []tick
	for i, name := range f.Rows {
		out = append(out, tick{at: float64(len(f.Rows)-i) - 0.5, label: cut(name, room)})
	}
	return out
}

// cut takes the middle out of a name that is too long for its room.
func cut(name string, room vg.Length) string {
	r := []rune(name)
	for n := len(r); n > 2 && yTickText.Width(name) > room; n-- {
		name = string(r[:(n+1)/2]) + "…" + string(r[len(r)-n/2:])
	}
	return name
}

// drawBeside draws upright bars, those at one place side by side.
func (p *panel) drawBeside(looks []look) {
	c := p.area
	width := 0.8 / float64(max(1, len(p.Series)))
	for k, s := range p.Series {
		for i, x := range s.X {
			if !p.X.has(x) || !p.Y.has(s.Y[i]) || s.Y[i] <= 0 {
				continue
			}
			from := x - 0.4 + width*float64(k)
			x0, x1 := c.X(p.x.norm(from)), c.X(p.x.norm(from+width))
			y0, y1 := c.Y(p.y.norm(0)), c.Y(p.y.norm(s.Y[i]))
			c.FillPolygon(looks[k].mark.Color, c.ClipPolygonXY([]vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}))
		}
	}
}

// drawBars draws the panel as bars, a piece for each series in its look.
func (p *panel) drawBars(looks []look) {
	c := p.area
	p.drawUprights()
	for i := range p.Rows {
		mid := c.Y(p.y.norm(float64(len(p.Rows)-i) - 0.5))
		from := 0.0
		for k, s := range p.Series {
			if !p.X.has(s.X[i]) || s.X[i] <= 0 {
				continue
			}
			x0, x1 := c.X(p.x.norm(from)), c.X(p.x.norm(from+s.X[i]))
			from += s.X[i]
			c.FillPolygon(looks[k].mark.Color, []vg.Point{
				{X: x0, Y: mid - barThick/2}, {X: x1, Y: mid - barThick/2}, {X: x1, Y: mid + barThick/2}, {X: x0, Y: mid + barThick/2},
			})
		}
	}
	if len(p.Rows) == 0 {
		c.FillText(emptyText, c.Center(), "no data")
	}
	p.drawAxes()
}
