package resize

import (
	"image"
	"math"
	"slices"
	"testing"

	"golang.org/x/image/draw"
	"pgregory.net/rapid"
)

// drawn is what package draw makes of the part.
func drawn(w, h int, img image.Image, part image.Rectangle) []uint8 {
	rgba := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.BiLinear.Scale(rgba, rgba.Bounds(), img, part, draw.Src, nil)
	pix := make([]uint8, 3*w*h)
	for i := range w * h {
		for c := range 3 {
			pix[c*w*h+i] = rgba.Pix[4*i+c]
		}
	}
	return pix
}

var subsamplings = []image.YCbCrSubsampleRatio{image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420, image.YCbCrSubsampleRatio440}

// picture is a grey or coloured one of random bytes, or of extremes alone.
func picture(t *rapid.T) image.Image {
	x, y := 2*rapid.IntRange(0, 4).Draw(t, "x"), rapid.IntRange(0, 9).Draw(t, "y")
	r := image.Rect(x, y, x+rapid.IntRange(1, 90).Draw(t, "w"), y+rapid.IntRange(1, 60).Draw(t, "h"))
	seed, extreme := rapid.Uint32().Draw(t, "seed"), rapid.Bool().Draw(t, "extreme")
	fill := func(pix []uint8) {
		for i := range pix {
			seed = seed*1664525 + 1013904223
			pix[i] = uint8(seed >> 24)
			if extreme {
				pix[i] = uint8(int32(seed) >> 31)
			}
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "grey") == 0 {
		m := image.NewGray(r)
		fill(m.Pix)
		return m
	}
	m := image.NewYCbCr(r, rapid.SampledFrom(subsamplings).Draw(t, "subsampling"))
	fill(m.Y)
	fill(m.Cb)
	fill(m.Cr)
	return m
}

// Parts of pictures of every kind are, scaled up or down, bit for bit those of package
// draw. A scaler is used for one after the other.
func TestBitsOfDraw(t *testing.T) {
	var s Scaler
	rapid.Check(t, func(t *rapid.T) {
		img := picture(t)
		b := img.Bounds()
		x, y := rapid.IntRange(b.Min.X, b.Max.X-1).Draw(t, "left"), rapid.IntRange(b.Min.Y, b.Max.Y-1).Draw(t, "top")
		part := image.Rect(x, y, rapid.IntRange(x+1, b.Max.X).Draw(t, "right"), rapid.IntRange(y+1, b.Max.Y).Draw(t, "bottom"))
		w, h := rapid.IntRange(1, 70).Draw(t, "across"), rapid.IntRange(1, 70).Draw(t, "down")
		got := make([]uint8, 3*w*h)
		if !s.Scale(got, w, h, img, part) {
			t.Fatalf("%T, part %v of %v is refused", img, part, b)
		}
		if want := drawn(w, h, img, part); !slices.Equal(got, want) {
			t.Fatalf("%T, part %v of %v to %d×%d differs", img, part, b, w, h)
		}
	})
}

// A kernel is its twin.
func TestKernelsAreTheirTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		bytes := func(n int, name string) []uint8 { return rapid.SliceOfN(rapid.Uint8(), n, n).Draw(t, name) }
		for half := range uint(2) {
			y, b, r := bytes(n, "luma"), bytes((n+int(half))>>half, "cb"), bytes((n+int(half))>>half, "cr")
			got, want := make([]float64, channels*n), make([]float64, channels*n)
			colours(got, y, b, r, half)
			coloursGo(0, want, y, b, r, half)
			if !slices.Equal(got, want) {
				t.Fatalf("colours, half %d: %v, want %v", half, got, want)
			}
		}
		var taps taps
		size := rapid.IntRange(1, 50).Draw(t, "size")
		taps.make(size, n, 0)
		source := make([]float64, channels*(n+taps.n))
		value := rapid.Float64Range(0, 0xffff)
		for i := range source[:channels*n] {
			source[i] = value.Draw(t, "pixel")
		}
		got, want := make([]float64, channels*size), make([]float64, channels*size)
		across(got, source, &taps)
		acrossGo(want, source, &taps)
		if !slices.Equal(got, want) {
			t.Fatalf("across: %v, want %v", got, want)
		}
		weights := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 9).Draw(t, "weights")
		rows, most := make([]float64, channels*n*len(weights)), 0.0
		for i := range rows {
			rows[i] = rapid.Float64Range(0, math.Nextafter(1, 2)).Draw(t, "row")
		}
		for _, w := range weights {
			most += w
		}
		inverse := 1 / max(most, 0.5)
		var a, b [3][]uint8
		for c := range a {
			a[c], b[c] = make([]uint8, n), make([]uint8, n)
		}
		down(a[0], a[1], a[2], rows, weights, inverse)
		downGo(0, b[0], b[1], b[2], rows, weights, most, inverse)
		for c := range a {
			if !slices.Equal(a[c], b[c]) {
				t.Fatalf("down: %v, want %v", a[c], b[c])
			}
		}
	})
}

func TestRefused(t *testing.T) {
	var s Scaler
	pix := make([]uint8, 3*64)
	good := image.NewYCbCr(image.Rect(0, 0, 20, 20), image.YCbCrSubsampleRatio420)
	for name, c := range map[string]struct {
		img  image.Image
		part image.Rectangle
	}{
		"another kind":        {image.NewRGBA(image.Rect(0, 0, 20, 20)), image.Rect(0, 0, 9, 9)},
		"another subsampling": {image.NewYCbCr(image.Rect(0, 0, 20, 20), image.YCbCrSubsampleRatio411), image.Rect(0, 0, 9, 9)},
		"an odd edge":         {good.SubImage(image.Rect(3, 3, 19, 19)), image.Rect(4, 4, 9, 9)},
		"outside":             {good, image.Rect(4, 4, 21, 9)},
		"nothing":             {good, image.Rect(4, 4, 4, 9)},
	} {
		if s.Scale(pix, 8, 8, c.img, c.part) {
			t.Error(name)
		}
	}
	if n := testing.AllocsPerRun(5, func() { s.Scale(pix, 8, 8, good, image.Rect(1, 1, 18, 17)) }); n > 0 {
		t.Errorf("%g allocations a picture", n)
	}
}

// BenchmarkScale scales the usual crop of a picture, here and by package draw.
func BenchmarkScale(b *testing.B) {
	img := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
	part := image.Rect(30, 20, 400, 350)
	var s Scaler
	pix := make([]uint8, 3*224*224)
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			s.Scale(pix, 224, 224, img, part)
		}
	})
	b.Run("draw", func(b *testing.B) {
		for b.Loop() {
			drawn(224, 224, img, part)
		}
	})
}
