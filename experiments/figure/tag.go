package figure

import (
	"math"

	"gonum.org/v1/plot/vg"
)

// drawTags writes the series' tags beside their last points, where they hide
// neither a point nor another tag, and are nearer to their own point than to any
// other. Those without room there stay out, as the legend has their names; of up to eight
// they stand farther off, at the end of a line. Tags of series that are not faded come
// first.
func (p *panel) drawTags(curves []curve, looks []look) {
	var taken []vg.Rectangle
	var points []vg.Point
	tags := 0
	for _, s := range p.Series {
		if s.Tag != "" {
			tags++
		}
	}
	for _, c := range curves {
		for _, r := range c.runs {
			if !c.marks && len(r.at) > 1 {
				continue
			}
			for i, at := range r.at {
				taken, points = append(taken, around(at, 3, 3)), append(points, at)
				if c.band {
					taken = append(taken, vg.Rectangle{Min: vg.Point{X: at.X - 1, Y: r.lo[i].Y}, Max: vg.Point{X: at.X + 1, Y: r.hi[i].Y}})
				}
			}
		}
	}
	for _, faded := range []bool{false, true} {
		for i, s := range p.Series {
			if s.Tag == "" || s.Faded != faded || len(curves[i].runs) == 0 {
				continue
			}
			last := curves[i].runs[len(curves[i].runs)-1].at
			at := last[len(last)-1]
			box, ok := p.room(at, s.Tag, taken, points)
			if !ok && tags <= allTagged {
				if box, ok = p.farther(at, s.Tag, taken); ok {
					p.area.StrokeLine2(tickLine, at.X, at.Y, max(box.Min.X, min(at.X, box.Max.X)), max(box.Min.Y, min(at.Y, box.Max.Y)))
				}
			}
			if ok {
				taken = append(taken, box)
				style := tagText
				if faded {
					style.Color = aimText.Color
				}
				p.area.FillText(style, vg.Point{X: box.Min.X, Y: (box.Min.Y + box.Max.Y) / 2}, s.Tag)
			}
		}
	}
}

// room finds a place for a text beside a point.
func (p *panel) room(at vg.Point, text string, taken []vg.Rectangle, points []vg.Point) (vg.Rectangle, bool) {
	w, h := tagText.Width(text), tagText.Height(text)
	for _, mid := range []vg.Point{
		{X: at.X + 6 + w/2, Y: at.Y}, {X: at.X - 6 - w/2, Y: at.Y}, {X: at.X, Y: at.Y + 4 + h}, {X: at.X, Y: at.Y - 4 - h},
		{X: at.X + 4 + w/2, Y: at.Y + 3 + h}, {X: at.X + 4 + w/2, Y: at.Y - 3 - h}, {X: at.X - 4 - w/2, Y: at.Y + 3 + h}, {X: at.X - 4 - w/2, Y: at.Y - 3 - h},
	} {
		box := around(mid, w/2, h/2)
		if inside(p.area, box.Min) && inside(p.area, box.Max) && !overlaps(box, taken) && !strays(box, at, points) {
			return box, true
		}
	}
	return vg.Rectangle{}, false
}

// allTagged is up to how many tags all of them are written.
const allTagged = 8

// farther finds the nearest place for a text that hides nothing, off its point.
func (p *panel) farther(at vg.Point, text string, taken []vg.Rectangle) (vg.Rectangle, bool) {
	w, h := tagText.Width(text), tagText.Height(text)
	for off := vg.Length(12); off < 120; off += 6 {
		for k := range 16 {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / 16)
			mid := vg.Point{X: at.X + vg.Length(cos)*(off+w/2), Y: at.Y + vg.Length(sin)*(off+h/2)}
			box := around(mid, w/2, h/2)
			if inside(p.area, box.Min) && inside(p.area, box.Max) && !overlaps(box, taken) {
				return box, true
			}
		}
	}
	return vg.Rectangle{}, false
}

// strays says whether a text is hardly nearer to its own point than to another one.
func strays(box vg.Rectangle, own vg.Point, points []vg.Point) bool {
	for _, p := range points {
		if p != own && distance(box, p) < distance(box, own)+4 {
			return true
		}
	}
	return false
}

func distance(box vg.Rectangle, p vg.Point) vg.Length {
	dx, dy := max(box.Min.X-p.X, 0, p.X-box.Max.X), max(box.Min.Y-p.Y, 0, p.Y-box.Max.Y)
	return vg.Length(math.Hypot(float64(dx), float64(dy)))
}

func around(mid vg.Point, dx, dy vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: mid.X - dx, Y: mid.Y - dy}, Max: vg.Point{X: mid.X + dx, Y: mid.Y + dy}}
}

func overlaps(a vg.Rectangle, others []vg.Rectangle) bool {
	for _, b := range others {
		if a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y {
			return true
		}
	}
	return false
}
