package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	axisLine  = draw.LineStyle{Color: color.Gray{0x55}, Width: 0.7}
	tickLine  = draw.LineStyle{Color: color.Gray{0x55}, Width: 0.5}
	gridLine  = draw.LineStyle{Color: color.Gray{0xE6}, Width: 0.5}
	aimLine   = draw.LineStyle{Color: color.Gray{0x80}, Width: 0.8, Dashes: points(3, 3)}
	titleText = style(12, 0x00, draw.XCenter, draw.YTop)
	xText     = style(11, 0x00, draw.XCenter, draw.YTop)
	yText     = upright(style(11, 0x00, draw.XCenter, draw.YTop))
	xTickText = style(9, 0x22, draw.XCenter, draw.YTop)
	yTickText = style(9, 0x22, draw.XRight, yMiddle)
	keyText   = style(9, 0x00, draw.XLeft, yMiddle)
	aimText   = style(8, 0x70, draw.XLeft, yMiddle)
	tagText   = style(8, 0x22, draw.XLeft, yMiddle)
	emptyText = style(9, 0x70, draw.XCenter, yMiddle)
)

// yMiddle centres what stands on the baseline, without what hangs below it.
const yMiddle text.YAlignment = -0.41

var fonts = text.Plain{Fonts: font.NewCache(liberation.Collection())}

func style(size vg.Length, grey uint8, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color:   color.Gray{grey},
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign:  x,
		YAlign:  y,
		Handler: fonts,
	}
}

func upright(s text.Style) text.Style {
	s.Rotation = math.Pi / 2
	return s
}

// palette is that of Okabe and Ito without its yellow, which white swallows, and Tol's
// wine. No colour is near the grey of what is faded.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xB2, 0xFF}, {0xD5, 0x5E, 0x00, 0xFF}, {0x00, 0x9E, 0x73, 0xFF}, {0xCC, 0x79, 0xA7, 0xFF},
	{0xE6, 0x9F, 0x00, 0xFF}, {0x56, 0xB4, 0xE9, 0xFF}, {0x00, 0x00, 0x00, 0xFF}, {0x88, 0x22, 0x55, 0xFF},
}

// Neither dashes nor shapes have a common factor with the palette, so that looks
// repeat late.
var dashes = [][]vg.Length{nil, points(7, 2.5), points(2, 2), points(7, 2.5, 2, 2.5), points(12, 3)}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
	polygon{{X: 0, Y: 1.25}, {X: 1.25, Y: 0}, {X: 0, Y: -1.25}, {X: -1.25, Y: 0}},
	polygon{{X: 0, Y: -1.2}, {X: 1.1, Y: 0.7}, {X: -1.1, Y: 0.7}},
	polygon{{X: 0.4, Y: 0.4}, {X: 0.4, Y: 1.2}, {X: -0.4, Y: 1.2}, {X: -0.4, Y: 0.4}, {X: -1.2, Y: 0.4}, {X: -1.2, Y: -0.4},
		{X: -0.4, Y: -0.4}, {X: -0.4, Y: -1.2}, {X: 0.4, Y: -1.2}, {X: 0.4, Y: -0.4}, {X: 1.2, Y: -0.4}, {X: 1.2, Y: 0.4}},
	polygon{{X: 0, Y: 0.55}, {X: 0.85, Y: 1.4}, {X: 1.4, Y: 0.85}, {X: 0.55, Y: 0}, {X: 1.4, Y: -0.85}, {X: 0.85, Y: -1.4},
		{X: 0, Y: -0.55}, {X: -0.85, Y: -1.4}, {X: -1.4, Y: -0.85}, {X: -0.55, Y: 0}, {X: -1.4, Y: 0.85}, {X: -0.85, Y: 1.4}},
}

func points(l ...vg.Length) []vg.Length { return l }

// look is how a series is drawn, here and in the legend.
type look struct {
	line draw.LineStyle
	bar  draw.LineStyle // error bars
	mark draw.GlyphStyle
	band tint
}

// tint is a colour that lets through what is below it. Rounded up, it is found again to the
// digit where it was multiplied by its opacity, so that pages know it.
type tint struct{ color.NRGBA }

// RGBA is the colour times its opacity.
func (t tint) RGBA() (r, g, b, a uint32) {
	a = 0x101 * uint32(t.A)
	times := func(c uint8) uint32 { return (uint32(c)*a + 254) / 255 }
	return times(t.R), times(t.G), times(t.B), a
}

// lookAt is the look of the i-th name.
func lookAt(i int) look {
	c := palette[i%len(palette)]
	band := tint{c}
	band.A = 48
	return look{
		line: draw.LineStyle{Color: c, Width: 1.8, Dashes: dashes[i%len(dashes)]},
		bar:  draw.LineStyle{Color: c, Width: 0.9},
		mark: draw.GlyphStyle{Color: c, Radius: 2.8, Shape: shapes[i%len(shapes)]},
		band: band,
	}
}

// faded is the look in its colour at 40 %, or in grey where the series has no name.
func (l look) faded(named bool) look {
	c := tint{color.NRGBA{0xA8, 0xA8, 0xA8, 0xFF}}
	if named {
		c = l.band
		c.A = 0x66
	}
	l.line.Color, l.bar.Color, l.mark.Color = c, c, c
	l.line.Width = 1
	c.A = 24
	l.band = c
	return l
}

// polygon is a filled mark given by its corners at radius 1.
type polygon []vg.Point

// DrawGlyph draws the mark.
func (p polygon) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	corners := make([]vg.Point, len(p))
	for i, q := range p {
		corners[i] = at.Add(q.Scale(s.Radius))
	}
	c.FillPolygon(s.Color, corners)
}
