package figure

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a series on a canvas: runs of points without a gap.
type curve struct {
	runs  []run
	marks bool
	band  bool
}

// run holds points and, where there is a band, its edges.
type run struct{ at, lo, hi []vg.Point }

// curve places a series.
func (p *panel) curve(s Series) curve {
	c := curve{marks: s.Marks, band: s.Lo != nil}
	place := func(x, y float64) vg.Point {
		return vg.Point{X: p.area.X(p.x.norm(x)), Y: p.area.Y(p.y.norm(y))}
	}
	gap := true
	for i := range s.X {
		if !p.X.has(s.X[i]) || !p.Y.has(s.Y[i]) {
			gap = true
			continue
		}
		if gap {
			c.runs = append(c.runs, run{})
			gap = false
		}
		r := &c.runs[len(c.runs)-1]
		r.at = append(r.at, place(s.X[i], s.Y[i]))
		if c.band {
			lo, hi := s.Lo[i], s.Hi[i]
			switch {
			case p.Y.Log && lo <= 0: // below everything
				lo = p.y.min
			case !p.Y.has(lo):
				lo = s.Y[i]
			}
			if !p.Y.has(hi) {
				hi = s.Y[i]
			}
			r.lo, r.hi = append(r.lo, place(s.X[i], lo)), append(r.hi, place(s.X[i], hi))
		}
	}
	return c
}

// drawBand shades the band, which goes under all the lines.
func (c curve) drawBand(area draw.Canvas, l look) {
	if !c.band || c.marks {
		return
	}
	for _, r := range c.runs {
		if len(r.at) < 2 {
			continue
		}
		edge := append([]vg.Point(nil), r.hi...)
		for i := range r.lo {
			edge = append(edge, r.lo[len(r.lo)-1-i])
		}
		area.FillPolygon(l.band, area.ClipPolygonXY(edge))
	}
}

func (c curve) draw(area draw.Canvas, l look) {
	for _, r := range c.runs {
		if len(r.at) > 1 {
			area.StrokeLines(l.line, area.ClipLinesXY(r.at)...)
		} else if !c.marks {
			c.drawMarks(area, l, r)
		}
	}
	if c.marks {
		for _, r := range c.runs {
			c.drawMarks(area, l, r)
		}
	}
}

func (c curve) drawMarks(area draw.Canvas, l look, r run) {
	for i, at := range r.at {
		if c.band {
			drawBar(area, l.bar, r.lo[i], r.hi[i])
		}
		if inside(area, at) {
			area.DrawGlyphNoClip(l.mark, at)
		}
	}
}

// drawBar draws an error bar, with caps where it ends within the area.
func drawBar(area draw.Canvas, s draw.LineStyle, lo, hi vg.Point) {
	area.StrokeLines(s, area.ClipLinesXY([]vg.Point{lo, hi})...)
	for _, p := range []vg.Point{lo, hi} {
		if inside(area, p) && lo.Y != hi.Y {
			area.StrokeLine2(s, p.X-2.5, p.Y, p.X+2.5, p.Y)
		}
	}
}

func inside(area draw.Canvas, p vg.Point) bool {
	const grain = 0.01
	return p.X > area.Min.X-grain && p.X < area.Max.X+grain && p.Y > area.Min.Y-grain && p.Y < area.Max.Y+grain
}
