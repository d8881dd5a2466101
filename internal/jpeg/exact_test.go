package jpeg

import (
	"bytes"
	"errors"
	"image"
	stdjpeg "image/jpeg"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// sameAs fails unless img has the part of std, the whole picture.
func sameAs(t *testing.T, img, std image.Image, part image.Rectangle) {
	t.Helper()
	if b := img.Bounds(); !part.In(b) || !b.In(std.Bounds()) {
		t.Fatalf("part %v of %v, bounds %v", part, std.Bounds(), b)
	}
	for c := range 3 {
		got, stride := plane(img, c)
		want, across := plane(std, c)
		if got == nil != (want == nil) {
			t.Fatalf("%T, want %T", img, std)
		}
		if got == nil {
			continue
		}
		offset := func(m image.Image, x, y int) int {
			if ycc, ok := m.(*image.YCbCr); ok && c > 0 {
				return ycc.COffset(x, y)
			}
			return (y-m.Bounds().Min.Y)*map[bool]int{true: stride, false: across}[m == img] + x - m.Bounds().Min.X
		}
		for y := part.Min.Y; y < part.Max.Y; y++ {
			for x := part.Min.X; x < part.Max.X; x++ {
				if a, b := got[offset(img, x, y)], want[offset(std, x, y)]; a != b {
					t.Fatalf("component %d at %d, %d is %d, image/jpeg has %d", c, x, y, a, b)
				}
			}
		}
	}
}

// middle is a part of a picture that touches no edge, if it can.
func middle(w, h int) image.Rectangle {
	return image.Rect(w/3, h/3, w/3+1+w/2, h/3+1+h/2).Intersect(image.Rect(0, 0, w, h))
}

// asGo126 skips where image/jpeg is another one.
func asGo126(t testing.TB) {
	if !strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Skip("image/jpeg of ", runtime.Version(), " may differ")
	}
}

// Usual pictures are decoded to the bits of image/jpeg, others are left to it.
func TestExactIsImageJPEG(t *testing.T) {
	asGo126(t)
	var d Decoder
	decoded, left := 0, 0
	try := func(name string, w, h int, b []byte) {
		std, stdErr := stdjpeg.Decode(bytes.NewReader(b))
		for _, part := range []image.Rectangle{image.Rect(0, 0, w, h), middle(w, h)} {
			img, err := d.Exact(b, part)
			if errors.Is(err, ErrUnsupported) {
				left++
				continue
			}
			if err != nil || stdErr != nil {
				t.Fatalf("%s: %v; image/jpeg: %v", name, err, stdErr)
			}
			sameAs(t, img, std, part)
			decoded++
		}
	}
	every(func(name string, p *drawing, b []byte) { try(name, p.width, p.height, b) })
	usual := decoded
	try("photo", 203, 150, photo(203, 150))
	if usual < 40 || left < 60 || decoded != usual+2 {
		t.Errorf("%d decoded, %d left to image/jpeg", decoded, left)
	}
}

// A picture is damaged anywhere, or cut off: what is decoded still is
// what image/jpeg decodes.
func TestExactLeavesWhatIsDamaged(t *testing.T) {
	asGo126(t)
	r := rand.New(rand.NewPCG(9, 10))
	whole := photo(64, 48)
	for _, b := range [][]byte{whole[:len(whole)-1], whole[:len(whole)-2], append(whole[:2:2], append([]byte{0xff, 0xdc, 0, 2}, whole[2:]...)...)} {
		if _, err := new(Decoder).Exact(b, middle(64, 48)); err == nil {
			t.Error("what is not usual is decoded")
		}
	}
	for range 3000 {
		b := bytes.Clone(whole)
		for range 1 + r.IntN(2) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		agrees(t, b)
	}
}

// agrees fails if b is decoded, and not as image/jpeg decodes it.
func agrees(t *testing.T, b []byte) {
	var d Decoder
	c, err := d.Header(b)
	if err != nil || c.Width*c.Height > 1<<18 {
		return
	}
	part := middle(c.Width, c.Height)
	img, err := d.Exact(b, part)
	if err != nil {
		return
	}
	std, err := stdjpeg.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("decoded, and refused by image/jpeg: %v", err)
	}
	sameAs(t, img, std, part)
}

func FuzzExact(f *testing.F) {
	asGo126(f)
	n := 0
	every(func(_ string, p *drawing, b []byte) {
		if n++; n%3 == 1 {
			f.Add(b)
		}
	})
	f.Add(photo(40, 30))
	f.Fuzz(func(t *testing.T, b []byte) { agrees(t, b) })
}

// The kernel is its twin on frequencies of any size, those that overflow too.
func TestExactKernelIsItsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for i := range 20000 {
		var f [64]int32
		last := 0
		for k := range f {
			if r.IntN(64) < i%65 {
				f[k] = int32(r.Uint32()) >> (i % 32)
				last = k
			}
		}
		const stride = 11
		got, want := make([]uint8, 7*stride+8), make([]uint8, 7*stride+8)
		g := f
		exact8(&g, last, got, stride)
		exact8Go(&f, want, stride)
		if !slices.Equal(got, want) {
			t.Fatalf("block %d: %v, want %v", i, got, want)
		}
	}
}
