package figure

import "gonum.org/v1/plot/vg"

// drawTarget draws the target's line with its label at that end, above or
// below, where the fewest curves pass.
func (p *panel) drawTarget(curves []curve) {
	if p.Target == 0 || !p.Y.has(p.Target) || !p.y.contains(p.Target) {
		return
	}
	c := p.area
	y := c.Y(p.y.norm(p.Target))
	c.StrokeLine2(aimLine, c.Min.X, y, c.Max.X, y)

	text := "target " + p.Y.Unit.label(p.Target)
	w, h := aimText.Width(text), aimText.Height(text)
	best, least := vg.Point{}, -1
	for _, x := range []vg.Length{c.Min.X + 5, c.Max.X - 5 - w} {
		for _, mid := range []vg.Length{y + h/2 + 1.5, y - h/2 - 0.5} {
			box := vg.Rectangle{Min: vg.Point{X: x - 3, Y: mid - h/2}, Max: vg.Point{X: x + w + 3, Y: mid + h/2}}
			if box.Max.Y > c.Max.Y+h/2 || box.Min.Y < c.Min.Y {
				continue
			}
			if n := crossings(curves, box); least < 0 || n < least {
				best, least = vg.Point{X: x, Y: mid}, n
			}
		}
	}
	c.FillText(aimText, best, text)
}

// reaches is the first point of a series that is at the target, where it was not there from
// the beginning: above it, or below where it began above. −1: there is none.
func (p *panel) reaches(s Series) int {
	if p.Target == 0 || s.Marks || s.Name == "" {
		return -1
	}
	first := 0.0
	for i, y := range s.Y {
		switch {
		case !p.X.has(s.X[i]) || !p.Y.has(y):
		case first == 0:
			if first = y - p.Target; first == 0 {
				return -1
			}
		case (y-p.Target)*first <= 0:
			return i
		}
	}
	return -1
}

// drawReached marks where series reach the target.
func (p *panel) drawReached(looks []look) {
	for i, s := range p.Series {
		if k := p.reaches(s); k >= 0 {
			at := vg.Point{X: p.area.X(p.x.norm(s.X[k])), Y: p.area.Y(p.y.norm(s.Y[k]))}
			if inside(p.area, at) {
				mark := looks[i].mark
				mark.Radius *= 1.3
				p.area.DrawGlyphNoClip(mark, at)
			}
		}
	}
}

// crossings counts, in steps along the curves, how much of them is in the box.
func crossings(curves []curve, box vg.Rectangle) (n int) {
	const steps = 40 // of a piece of line
	for _, c := range curves {
		for _, r := range c.runs {
			for i, b := range r.at {
				a := r.at[max(i-1, 0)]
				for k := range steps {
					t := vg.Length(k+1) / steps
					q := vg.Point{X: a.X + (b.X-a.X)*t, Y: a.Y + (b.Y-a.Y)*t}
					if q.X >= box.Min.X && q.X <= box.Max.X && q.Y >= box.Min.Y && q.Y <= box.Max.Y {
						n++
					}
				}
			}
		}
	}
	return n
}
