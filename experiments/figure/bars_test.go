package figure

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

func shares() Figure {
	return Figure{
		Title: "where the time goes", X: Axis{Label: "time of a step", Unit: Seconds},
		Rows: []string{"raw", "feedback(topk(keep=0.01,values=bf16,index=rice,selection=exact))", "qsgd"},
		Series: []Series{
			{Name: "compute", X: []float64{1, 1, 1}}, {Name: "wait", X: []float64{4, 0.25, math.NaN()}}, {Name: "encode", X: []float64{0, 0.5, -1}},
		},
	}
}

func TestBarsStackUp(t *testing.T) {
	f := shares()
	x, y := f.barScales()
	if x.min != 0 || x.max < 5 || x.max > 5.5 || y.max != 3 {
		t.Errorf("scales %v and %v", x, y)
	}
	svg, err := SVG(f)
	if err != nil {
		t.Fatal(err)
	}
	s := string(svg)
	if strings.Contains(s, "NaN") {
		t.Error("a coordinate is not a number")
	}
	// Three pieces of compute, two of wait, one of encode, and a line of the
	// legend each.
	for colour, want := range map[string]int{"#0072B2": 4, "#D55E00": 3, "#009E73": 2} {
		if n := strings.Count(s, "fill:"+colour); n != want {
			t.Errorf("%d pieces in %s, want %d", n, colour, want)
		}
	}
	for _, want := range []string{">raw<", ">5 s<", "…"} {
		if !strings.Contains(s, want) {
			t.Errorf("no text %s", want)
		}
	}
	f.Series[0].X = f.Series[0].X[1:]
	if _, err := SVG(f); err == nil {
		t.Error("a series with fewer pieces than bars")
	}
	if _, err := SVG(Figure{Rows: []string{}}); err != nil {
		t.Error(err)
	}
}

func TestTagsHideNothing(t *testing.T) {
	var f Figure
	for i := range 40 { // far more than there is room for
		f.Series = append(f.Series, Series{Name: "a", Tag: "a tag", Marks: true, X: []float64{1 + float64(i%5)/50}, Y: []float64{float64(i) / 40}})
	}
	f.Series = append(f.Series, Series{Name: "alone", Tag: "far away", Marks: true, X: []float64{9}, Y: []float64{0.5}})
	svg, err := SVG(f)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(svg, []byte(">a tag<")); n > 5 { // whose are they?
		t.Errorf("%d of 40 tags", n)
	}
	if !bytes.Contains(svg, []byte(">far away<")) {
		t.Error("a tag with room is missing")
	}
}

// Bars at one place stand side by side, from zero.
func TestBarsSideBySide(t *testing.T) {
	t.Parallel()
	f := Figure{Beside: true, Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{0.5, 0.5}}, {Name: "b", X: []float64{0, 1}, Y: []float64{0.2, 0.8}}}}
	if x, y := f.scales(); x.min > -0.4 || x.max < 1.4 || y.min != 0 {
		t.Errorf("scales %v and %v", x, y)
	}
	svg, err := SVG(f)
	for colour, want := range map[string]int{"#0072B2": 3, "#D55E00": 3} { // two and the legend's
		if n := bytes.Count(svg, []byte("fill:"+colour)); err != nil || n != want {
			t.Errorf("%d bars in %s, %v", n, colour, err)
		}
	}
}

// Where a curve reaches the target there is a mark, once, and none on a curve that begins
// there or never comes.
func TestTargetIsMarkedWhereReached(t *testing.T) {
	t.Parallel()
	p := panel{Figure: Figure{Target: 0.9}}
	for _, c := range []struct {
		y    []float64
		want int
	}{{[]float64{0.5, 0.8, 0.92, 0.85, 0.95}, 2}, {[]float64{0.5, 0.8}, -1}, {[]float64{2, 1.5, 0.9}, 2}, {[]float64{0.9, 0.95}, -1}, {[]float64{math.NaN(), 0.8, 0.9}, 2}} {
		if got := p.reaches(Series{Name: "a", X: []float64{1, 2, 3, 4, 5}[:len(c.y)], Y: c.y}); got != c.want {
			t.Errorf("%v: %d, want %d", c.y, got, c.want)
		}
	}
	count := func(target float64) int {
		svg, err := SVG(Figure{Target: target, Series: []Series{{Name: "a", X: []float64{1, 2, 3}, Y: []float64{1, 2, 3}}}})
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(svg, []byte("fill:#0072B2"))
	}
	if count(1.5) != 1 || count(5) != 0 {
		t.Errorf("%d and %d marks", count(1.5), count(5))
	}
}

// Of up to eight, all tags are written, farther off where there is no room.
func TestEightTagsAreAllThere(t *testing.T) {
	t.Parallel()
	var f Figure
	for i := range 8 {
		f.Series = append(f.Series, Series{Name: "a", Tag: "a tag", Marks: true, X: []float64{1 + float64(i)/100}, Y: []float64{0.5 + float64(i%3)/100}})
	}
	f.Series = append(f.Series, Series{Name: "b", Marks: true, X: []float64{1.5}, Y: []float64{1}})
	svg, err := SVG(f)
	if n := bytes.Count(svg, []byte(">a tag<")); err != nil || n != 8 {
		t.Errorf("%d of 8 tags, %v", n, err)
	}
}

// Marks have seven shapes, no two of which are alike.
func TestSevenShapes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 8 {
		seen[fmt.Sprintf("%T%v", lookAt(i).mark.Shape, lookAt(i).mark.Shape)] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d shapes", len(seen))
	}
}

// A faded series keeps its colour, at 40 %, and is grey where it has no name.
func TestFadedSeriesKeepTheirColour(t *testing.T) {
	for name, want := range map[string]string{"a": "stroke:#0072B2;stroke-opacity:0.4", "": "stroke:" + Colours()["faded"]} {
		svg, err := SVG(Figure{Series: []Series{{Name: name, Faded: true, X: []float64{1, 2}, Y: []float64{1, 2}}}})
		if err != nil || !bytes.Contains(svg, []byte(want)) {
			t.Errorf("%v: no %s in\n%s", err, want, svg)
		}
	}
}

// Parts have the looks of the whole, and what has no point has no line in the
// legend.
func TestParts(t *testing.T) {
	a, b := accuracyFigures()[0], accuracyFigures()[1]
	a.Series[1].X, a.Series[1].Y, a.Series[1].Lo, a.Series[1].Hi = nil, nil, nil, nil
	b.Series = b.Series[2:]
	panels, legend, err := Parts(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range legend {
		names = append(names, l.Name)
	}
	if got := strings.Join(names, " "); got != "raw feedback(topk(keep=0.01)) qsgd(levels=4)" || len(panels) != 2 {
		t.Fatalf("%d panels, legend %s", len(panels), got)
	}
	third := []byte("stroke:var(--fig-series-3,#009E73)")
	if !bytes.Contains(panels[0].SVG, third) || !bytes.Contains(panels[1].SVG, third) || !bytes.Contains(legend[1].SVG, third) {
		t.Error("panels and legend do not share looks")
	}
	if !bytes.HasPrefix(panels[0].SVG, []byte("<svg")) || bytes.Contains(panels[0].SVG, []byte("qsgd")) {
		t.Error("a panel is not the panel alone")
	}
}

func TestPDF(t *testing.T) {
	a := accuracyFigures()
	a[0].Y.Log, a[0].Series[0].Y[0] = true, 1e-5 // raised digits and a minus, which no code page of PDF fonts has
	one, err := PDF(a...)
	if err != nil {
		t.Fatal(err)
	}
	two, err := PDF(a...)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("the PDF differs from itself: %v", err)
	}
	if !bytes.HasPrefix(one, []byte("%PDF-1.")) || !bytes.Contains(one, []byte("(D:20000101000000)")) {
		t.Error("no PDF, or a dated one")
	}
}

// Texts are as wide as they were laid out, whatever font a viewer has.
func TestTextsKeepTheirWidths(t *testing.T) {
	svg, err := SVG(Figure{Title: "a < b", Series: []Series{{Name: "one", X: []float64{1, 2}, Y: []float64{1, 2}}}})
	if err != nil {
		t.Fatal(err)
	}
	texts := bytes.Count(svg, []byte("<text "))
	if n := bytes.Count(svg, []byte(`<text textLength="`)); n == 0 || n != texts || bytes.Contains(svg, []byte(`textLength="0"`)) {
		t.Errorf("%d of %d texts have a width\n%s", n, texts, svg)
	}
}
