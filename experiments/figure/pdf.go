package figure

import (
	"bytes"
	"image/color"
	"io"
	"regexp"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgpdf"
)

func (s *sheet) pdf(w io.Writer) error {
	c := vgpdf.New(s.width, s.height)
	s.draw(draw.New(outlines{c}))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(undated(b.Bytes()))
	return err
}

var dates = regexp.MustCompile(`/(CreationDate|ModDate) \(D:\d{14}\)`)

// undated takes the time of writing out of a PDF, at the same length: the same
// figure is the same file.
func undated(pdf []byte) []byte {
	return dates.ReplaceAllFunc(pdf, func(d []byte) []byte {
		copy(d[len(d)-15:], "20000101000000")
		return d
	})
}

// outlines is a PDF canvas that makes up for what vgpdf lacks. It draws the
// outlines of texts which hold characters outside Windows-1252, all that
// vgpdf's fonts can name: the minus and raised digits of tick labels.
type outlines struct{ *vgpdf.Canvas }

// SetColor takes the colour of what is drawn next. vgpdf gives the channels of a
// colour, which are multiplied by alpha, out as they are, beside alpha: bands
// would come out dark.
func (o outlines) SetColor(c color.Color) {
	o.Canvas.SetColor(plain(color.NRGBAModel.Convert(c).(color.NRGBA)))
}

// plain is a colour that does not multiply.
type plain color.NRGBA

// RGBA gives the channels as they are.
func (p plain) RGBA() (r, g, b, a uint32) {
	return uint32(p.R) * 0x101, uint32(p.G) * 0x101, uint32(p.B) * 0x101, uint32(p.A) * 0x101
}

// FillString writes a text.
func (o outlines) FillString(f font.Face, at vg.Point, text string) {
	if _, err := charmap.Windows1252.NewEncoder().String(text); err == nil {
		o.Canvas.FillString(f, at, text)
		return
	}
	o.Fill(outline(f, at, text))
}

// outline is a text's shape.
func outline(f font.Face, at vg.Point, text string) (p vg.Path) {
	var buf sfnt.Buffer
	em := fixed.I(1000)
	unit := f.Font.Size / 1000 / 64
	for _, r := range text {
		g, err := f.Face.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		segments, err := f.Face.LoadGlyph(&buf, g, em, nil)
		if err != nil {
			continue
		}
		point := func(q fixed.Point26_6) vg.Point {
			return vg.Point{X: at.X + vg.Length(q.X)*unit, Y: at.Y - vg.Length(q.Y)*unit}
		}
		for _, s := range segments {
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				p.Move(point(s.Args[0]))
			case sfnt.SegmentOpLineTo:
				p.Line(point(s.Args[0]))
			case sfnt.SegmentOpQuadTo:
				p.QuadTo(point(s.Args[0]), point(s.Args[1]))
			case sfnt.SegmentOpCubeTo:
				p.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
			}
		}
		if a, err := f.Face.GlyphAdvance(&buf, g, em, 0); err == nil {
			at.X += vg.Length(a) * unit
		}
	}
	p.Close()
	return p
}
