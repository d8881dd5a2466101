package figure

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// learning is a made-up learning curve.
func learning(name string, speed, end float64, band, marks bool) Series {
	s := Series{Name: name, Marks: marks}
	for i := range 30 {
		t := 2 * math.Pow(1.25, float64(i))
		y := 0.1 + (end-0.1)*(1-math.Exp(-t*speed/100))
		s.X, s.Y = append(s.X, t), append(s.Y, y)
		if band {
			w := 0.02 + 0.1*math.Exp(-t*speed/100)
			s.Lo, s.Hi = append(s.Lo, y-w), append(s.Hi, y+w)
		}
	}
	return s
}

func scaled(s Series, by float64) Series {
	x := make([]float64, len(s.X))
	for i := range x {
		x[i] = s.X[i] * by
	}
	s.X = x
	return s
}

func accuracyFigures() []Figure {
	names := []string{"raw", "topk(keep=0.01)", "feedback(topk(keep=0.01))", "qsgd(levels=4)"}
	time := Figure{Title: "Accuracy by time", X: Axis{Label: "time", Log: true, Unit: Seconds},
		Y: Axis{Label: "test accuracy", Unit: Percent}, Target: 0.9}
	bytes := Figure{Title: "Accuracy by bytes", X: Axis{Label: "bytes pushed by all workers", Log: true, Unit: Bytes},
		Y: Axis{Label: "test accuracy", Unit: Percent}, Target: 0.9}
	for i, n := range names {
		s := learning(n, 3/float64(i+1), 0.98-0.02*float64(i), true, false)
		time.Series = append(time.Series, s)
		bytes.Series = append(bytes.Series, scaled(s, 3e6/math.Pow(20, float64(i))))
	}
	return []Figure{time, bytes}
}

func manySeries() Figure {
	f := Figure{Title: "Eight codecs", X: Axis{Label: "updates"}, Y: Axis{Label: "training loss", Log: true}}
	for i, n := range []string{"raw", "topk(keep=0.01)", "feedback(topk(keep=0.01))", "qsgd(levels=4)", "feedback(sign())",
		"terngrad(clip=2.5)", "dgc(keep=0.001,warmup=4)", "feedback(randk(keep=0.01))"} {
		s := learning(n, 1+0.4*float64(i), 0.9, false, i%2 == 1)
		for j := range s.Y {
			s.X[j] = float64(j) * 700
			s.Y[j] = (1 - s.Y[j]) * 2.5 * (1 + 0.1*float64(i))
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func TestSaveWritesBothAndRepeatsItself(t *testing.T) {
	base := filepath.Join(t.TempDir(), "sub", "accuracy")
	files, err := Save(base, accuracyFigures()...)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || files[0] != base+".svg" || files[1] != base+".png" {
		t.Fatal(files)
	}
	svg, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	again, err := SVG(accuracyFigures()...)
	if err != nil || !bytes.Equal(svg, again) {
		t.Errorf("the SVG differs from itself: %v", err)
	}
	img, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	again, err = PNG(accuracyFigures()...)
	if err != nil || !bytes.Equal(img, again) {
		t.Errorf("the PNG differs from itself: %v", err)
	}
	c, err := png.DecodeConfig(bytes.NewReader(img))
	if err != nil {
		t.Fatal(err)
	}
	if inches := float64(c.Width) / dpi; inches < 8 || inches > 10 {
		t.Errorf("two panels are %.1f inches wide", inches)
	}
}

func TestSVG(t *testing.T) {
	svg, err := SVG(accuracyFigures()...)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	s := string(svg)
	if n := strings.Count(s, "font-family:Liberation Sans"); n == 0 || n != strings.Count(s, "font-family:Liberation Sans, Arial, sans-serif") {
		t.Error("some text has no fallback font")
	}
	for _, want := range []string{">10 s<", ">2 min<", ">1 MB<", ">80 %<", ">target 90 %<", ">Accuracy by bytes<"} {
		if !strings.Contains(s, want) {
			t.Errorf("no text %s", want)
		}
	}
	if n := strings.Count(s, ">feedback(topk(keep=0.01))<"); n != 1 {
		t.Errorf("the legend names a series %d times", n)
	}
	if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Error("a coordinate is not a number")
	}
}

func TestOddInputDrawsWithoutPanic(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	series := map[string][]Series{
		"none":        nil,
		"empty":       {{Name: "a"}},
		"point":       {{Name: "a", X: []float64{3}, Y: []float64{0.5}}},
		"bar":         {{Name: "a", X: []float64{3}, Y: []float64{0.5}, Lo: []float64{-1}, Hi: []float64{0.7}}},
		"origin":      {{Name: "a", X: []float64{0}, Y: []float64{0}}},
		"not numbers": {{Name: "a", X: []float64{nan, 1, inf, 2, 3, 4}, Y: []float64{1, nan, 2, -inf, inf, 7}}},
		"gap":         {{Name: "a", X: []float64{1, 2, 3, 4}, Y: []float64{1, 2, nan, 3}, Lo: []float64{0, nan, 0, 0}, Hi: []float64{2, 3, inf, nan}}},
		"negative":    {{Name: "a", X: []float64{-5, -1, 0, 1, 5}, Y: []float64{-2, 0, 1, -1, 3}, Lo: make([]float64, 5), Hi: []float64{9, 9, 9, 9, 9}}},
		"same":        {{Name: "a", X: []float64{2, 2, 2}, Y: []float64{5, 5, 5}, Marks: true}},
		"huge":        {{Name: "a", X: []float64{1e-299, 1, 1e299}, Y: []float64{-1e299, 1e299, math.MaxFloat64}}},
		"tiny":        {{Name: "a", X: []float64{1, 1 + 1e-15}, Y: []float64{5e-324, 1e-310}}},
		"close":       {{Name: "", X: []float64{1e9, 1e9 + 1}, Y: []float64{1, 1.0000001}}},
	}
	for name, s := range series {
		for _, log := range []bool{false, true} {
			for unit := Plain; unit <= Percent+1; unit++ {
				for _, r := range [][2]float64{{}, {0, 1}, {-3, -1}, {nan, 1}, {5, 2}, {-inf, inf}} {
					a := Axis{Log: log, Unit: unit, Min: r[0], Max: r[1], Label: "axis"}
					for _, target := range []float64{0, 0.5, -1, nan} {
						b, err := SVG(Figure{X: a, Y: a, Series: s, Target: target})
						if err != nil {
							t.Fatal(err)
						}
						if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Inf")) {
							t.Fatalf("%s, log %v, unit %v, range %v: a coordinate is not a number", name, log, unit, r)
						}
					}
				}
			}
		}
	}
	if _, err := SVG(); err == nil {
		t.Error("a figure without panels")
	}
	if _, err := SVG(Figure{Series: []Series{{X: []float64{1}}}}); err == nil {
		t.Error("x without y")
	}
	if _, err := SVG(Figure{Series: []Series{{X: []float64{1}, Y: []float64{1}, Lo: []float64{1}}}}); err == nil {
		t.Error("a band with one edge")
	}
}

func TestLogAxisDropsWhatHasNoLogarithm(t *testing.T) {
	a := Axis{Log: true, Unit: Seconds}
	s := a.scale([]float64{0, -3, 10, 1000, math.NaN()})
	if !(s.min < 10 && s.min > 5 && s.max > 1000 && s.max < 2000) {
		t.Fatalf("range %g…%g", s.min, s.max)
	}
	b, err := SVG(Figure{X: a, Series: []Series{{Name: "a", X: []float64{0, 10, 1000}, Y: []float64{0.1, 0.5, 0.9}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">10 s<", ">15 min<"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no tick %s", want)
		}
	}
}

func TestTicksNeverOverlap(t *testing.T) {
	for unit := Plain; unit <= Percent; unit++ {
		for _, lo := range []float64{1e-5, 0.003, 0.7, 1, 42, 9e3, 1e6} {
			for _, ratio := range []float64{1.3, 2, 4.9, 5, 9, 30, 400, 1e4, 1e7, 1e12} {
				if unit == Seconds && lo*ratio > 1e8 {
					continue // years
				}
				for _, log := range []bool{true, false} {
					a := Axis{Log: log, Unit: unit}
					s := scale{log: log, min: lo, max: lo * ratio}
					ticks := a.ticks(s, func(c []tick) bool { return apart(c, s, 240, 9, xTickText.Width) })
					var labelled []tick
					seen := map[string]bool{}
					for _, k := range ticks {
						if !s.contains(k.at) {
							t.Fatalf("tick %g outside %v", k.at, s)
						}
						if k.label != "" {
							labelled = append(labelled, k)
							if seen[k.label] {
								t.Errorf("label %q twice on %v", k.label, s)
							}
							seen[k.label] = true
						}
					}
					if len(labelled) < 2 {
						t.Errorf("unit %v, %v: only ticks %v", unit, s, labelled)
					}
					if !apart(labelled, s, 240, 9, xTickText.Width) {
						t.Errorf("labels overlap: %v", labelled)
					}
				}
			}
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		u    Unit
		v    float64
		want string
	}{
		{Plain, 0, "0"}, {Plain, 0.1, "0.1"}, {Plain, -2.5, "−2.5"}, {Plain, 2e4, "20k"}, {Plain, 3e6, "3M"}, {Plain, 1e-4, "1e−4"},
		{Plain, 3e-7, "3e−7"}, {Seconds, 0, "0 s"}, {Seconds, 0.03, "30 ms"}, {Seconds, 30, "30 s"}, {Seconds, 300, "5 min"},
		{Seconds, 7200, "2 h"}, {Seconds, 86400, "1 d"}, {Bytes, 1e7, "10 MB"}, {Bytes, 3e3, "3 kB"}, {Percent, 0.9, "90 %"},
		{Percent, 0.985, "98.5 %"},
	} {
		if got := c.u.label(c.v); got != c.want {
			t.Errorf("unit %v: %g reads %q, not %q", c.u, c.v, got, c.want)
		}
	}
}

func TestLegendFitsUnderPanels(t *testing.T) {
	s, err := newSheet([]Figure{manySeries(), manySeries()})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.key.entries) != 8 || s.key.width() > s.width-2*margin {
		t.Errorf("%d entries, %v wide in %v", len(s.key.entries), s.key.width(), s.width)
	}
	looks := map[string]bool{}
	for i := range 30 {
		l := lookAt(i)
		b, err := SVG(Figure{Series: make([]Series, i+1)})
		if err != nil || len(b) == 0 {
			t.Fatal(err)
		}
		key := strings.Join([]string{string(rune('a' + i%len(palette))), string(rune('a' + i%len(dashes)))}, "")
		if looks[key] || l.line.Width == 0 {
			t.Errorf("look %d repeats", i)
		}
		looks[key] = true
	}
}
