package figure

import (
	"bytes"
	"fmt"
	"io"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// laid is an SVG whose texts are as wide as they were laid out, whatever font a reader's
// machine takes for ours: a wider one would run over marks and bars.
type laid struct {
	*vgsvg.Canvas
	widths []vg.Length // of its texts, in the order of drawing
}

func newLaid(width, height vg.Length) *laid { return &laid{Canvas: vgsvg.New(width, height)} }

// FillString implements vg.Canvas.
func (c *laid) FillString(f font.Face, at vg.Point, text string) {
	c.widths = append(c.widths, f.Width(text))
	c.Canvas.FillString(f, at, text)
}

// WriteTo implements io.WriterTo.
func (c *laid) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := c.Canvas.WriteTo(&b); err != nil {
		return 0, err
	}
	parts := bytes.Split(b.Bytes(), []byte("<text "))
	if len(parts) != len(c.widths)+1 {
		return 0, fmt.Errorf("%d texts were drawn, and %d are in the figure", len(c.widths), len(parts)-1)
	}
	out := parts[0]
	for i, p := range parts[1:] {
		out = fmt.Appendf(out, `<text textLength="%.5g" lengthAdjust="spacingAndGlyphs" %s`, c.widths[i].Points(), p)
	}
	n, err := w.Write(out)
	return int64(n), err
}
