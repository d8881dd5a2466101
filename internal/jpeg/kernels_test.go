package jpeg

import (
	"hash/fnv"
	"image"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// The bits of a picture, of every form and size, are what they have always been.
func TestBitsStay(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("photo is drawn with sines, which differ elsewhere")
	}
	h := fnv.New64a()
	var d Decoder
	write := func(b []byte, part image.Rectangle) {
		for scale := 1; scale <= 8; scale *= 2 {
			img, err := d.Decode(b, scale, part)
			if err != nil {
				t.Fatal(err)
			}
			for c := range 3 {
				pix, _ := plane(img, c)
				h.Write(pix)
			}
		}
	}
	every(func(_ string, p *drawing, b []byte) { write(b, image.Rect(p.width/4, p.height/4, p.width, p.height)) })
	write(photo(203, 150), image.Rect(0, 0, 203, 150))
	if got := h.Sum64(); got != 0xdc696351e120ac86 {
		t.Errorf("other bits: %#x", got)
	}
}

// A kernel is its twin on frequencies of any size, those that overflow too.
func TestKernelsAreTheirTwins(t *testing.T) {
	if !simd {
		t.Skip("no assembly here")
	}
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 20000 {
		var f [64]int32
		for k := range f {
			if r.IntN(64) < i%65 {
				f[k] = int32(r.Uint32()) >> (i % 32)
			}
		}
		const stride = 11
		got, want := make([]uint8, 7*stride+8), make([]uint8, 7*stride+8)
		g := f
		idct8AVX2(&g, &got[0], stride)
		idct8Go(&f, want, stride)
		if !slices.Equal(got, want) {
			t.Fatalf("block %d: %v, want %v", i, got, want)
		}
	}
}
