package figure

import (
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	tickLength = vg.Length(3.5)
	tickGap    = vg.Length(2.5) // between a tick and its label
	labelGap   = vg.Length(5)   // between tick labels and the axis's label
)

// panel is a figure in its place.
type panel struct {
	Figure
	area           draw.Canvas // where the curves are
	x, y           scale
	xTicks, yTicks []tick
}

// newPanel lays a figure out in a frame, with a title line and lines for the
// axes' labels if panels of the sheet have any.
func newPanel(f Figure, frame draw.Canvas, titles, xLabels bool) *panel {
	p := &panel{Figure: f}
	if f.Rows != nil {
		p.x, p.y = f.barScales()
	} else {
		p.x, p.y = f.scales()
	}

	top := yTickText.Height("0") / 2
	if titles {
		top = max(top, titleText.Height("X")+6)
	}
	bottom := tickLength + tickGap + xTickText.Height("0")
	if xLabels {
		bottom += labelGap - 2 + xText.Height("X")
	}
	p.area = draw.Crop(frame, 0, 0, bottom, -top)

	height := p.area.Max.Y - p.area.Min.Y
	p.yTicks = f.Y.ticks(p.y, func(t []tick) bool {
		return apart(t, p.y, height, 14, func(string) vg.Length { return yTickText.Height("0") })
	})
	if f.Rows != nil {
		p.yTicks = f.rowTicks((frame.Max.X - frame.Min.X) * 2 / 5)
	}
	left := tickLength + tickGap + widest(yTickText, p.yTicks)
	if f.Y.Label != "" {
		left += labelGap + yText.Height(f.Y.Label)
	}
	p.area = draw.Crop(p.area, left, -4, 0, 0)

	width := p.area.Max.X - p.area.Min.X
	p.xTicks = f.X.ticks(p.x, func(t []tick) bool {
		return apart(t, p.x, width, 9, xTickText.Width)
	})
	over := vg.Length(0) // how far labels stand out on the right
	for _, t := range p.xTicks {
		over = max(over, vg.Length(p.x.norm(t.at)-1)*width+xTickText.Width(t.label)/2-4)
	}
	p.area = draw.Crop(p.area, 0, -over, 0, 0)
	return p
}

// scales are the ranges of the axes: of all points, their bands and the target.
func (f Figure) scales() (x, y scale) {
	var xs, ys []float64
	for _, s := range f.Series {
		for i := range s.X {
			if !f.X.has(s.X[i]) || !f.Y.has(s.Y[i]) {
				continue
			}
			xs, ys = append(xs, s.X[i]), append(ys, s.Y[i])
			if s.Lo != nil {
				ys = append(ys, s.Lo[i], s.Hi[i])
			}
			if f.Beside {
				xs, ys = append(xs, s.X[i]-0.5, s.X[i]+0.5), append(ys, 0)
			}
		}
	}
	if f.Target != 0 {
		ys = append(ys, f.Target)
	}
	return f.X.scale(xs), f.Y.scale(ys)
}

// apart says whether labels keep a distance.
func apart(ticks []tick, s scale, length, gap vg.Length, size func(string) vg.Length) bool {
	for i := 1; i < len(ticks); i++ {
		a, b := ticks[i-1], ticks[i]
		if vg.Length(s.norm(b.at)-s.norm(a.at))*length < (size(a.label)+size(b.label))/2+gap {
			return false
		}
	}
	return true
}

func widest(s text.Style, ticks []tick) (w vg.Length) {
	for _, t := range ticks {
		w = max(w, s.Width(t.label))
	}
	return w
}

// draw draws the panel, the series in the looks of their names.
func (p *panel) draw(looks []look) {
	c := p.area
	p.drawUprights()
	for _, t := range p.yTicks {
		if y := c.Y(p.y.norm(t.at)); t.label != "" {
			c.StrokeLine2(gridLine, c.Min.X, y, c.Max.X, y)
		}
	}
	curves := make([]curve, len(p.Series))
	looks = slices.Clone(looks)
	empty := true
	if p.Beside {
		p.drawBeside(looks)
	}
	for i, s := range p.Series {
		if p.Beside {
			empty = empty && len(s.X) == 0
			continue
		}
		curves[i] = p.curve(s)
		if s.Faded {
			looks[i] = looks[i].faded(s.Name != "")
		}
		empty = empty && len(curves[i].runs) == 0
		curves[i].drawBand(c, looks[i])
	}
	p.drawTarget(curves)
	for i := range curves {
		curves[i].draw(c, looks[i])
	}
	p.drawReached(looks)
	p.drawTags(curves, looks)
	if empty {
		c.FillText(emptyText, c.Center(), "no data")
	}
	p.drawAxes()
}

// drawUprights draws the grid's upright lines.
func (p *panel) drawUprights() {
	c := p.area
	for _, t := range p.xTicks {
		if x := c.X(p.x.norm(t.at)); t.label != "" {
			c.StrokeLine2(gridLine, x, c.Min.Y, x, c.Max.Y)
		}
	}
}

func (p *panel) drawAxes() {
	c := p.area
	for _, t := range p.xTicks {
		x, length := c.X(p.x.norm(t.at)), tickLength
		if t.label == "" {
			length /= 2
		}
		c.StrokeLine2(tickLine, x, c.Min.Y, x, c.Min.Y-length)
		c.FillText(xTickText, vg.Point{X: x, Y: c.Min.Y - tickLength - tickGap}, t.label)
	}
	for _, t := range p.yTicks {
		y, length := c.Y(p.y.norm(t.at)), tickLength
		if t.label == "" {
			length /= 2
		}
		c.StrokeLine2(tickLine, c.Min.X, y, c.Min.X-length, y)
		c.FillText(yTickText, vg.Point{X: c.Min.X - tickLength - tickGap, Y: y}, t.label)
	}
	c.StrokeLines(axisLine, []vg.Point{{X: c.Min.X, Y: c.Max.Y}, c.Min, {X: c.Max.X, Y: c.Min.Y}})

	width, height := c.Max.X-c.Min.X, c.Max.Y-c.Min.Y
	mid := c.Center()
	below := c.Min.Y - tickLength - tickGap - xTickText.Height("0") - labelGap + 2
	c.FillText(shrunk(xText, p.X.Label, width), vg.Point{X: mid.X, Y: below}, p.X.Label)
	beside := c.Min.X - tickLength - tickGap - widest(yTickText, p.yTicks) - labelGap - yText.Height("X")
	c.FillText(shrunk(yText, p.Y.Label, height), vg.Point{X: beside, Y: mid.Y}, p.Y.Label)
	c.FillText(shrunk(titleText, p.Title, width), vg.Point{X: mid.X, Y: c.Max.Y + 6 + titleText.Height("X")}, p.Title)
}

// shrunk makes a style as small as a long text needs it.
func shrunk(s text.Style, txt string, room vg.Length) text.Style {
	if w := s.Width(txt); w > room {
		s.Font.Size *= room / w
	}
	return s
}
