package f32

import (
	"slices"
	"testing"
)

// unfoldNaive visits every (matrix element, image element) pair of the
// definition; image index -1 is padding.
func unfoldNaive(c, h, w, kh, kw, stride, pad int, visit func(col, img int)) int {
	oh, ow := (h+2*pad-kh)/stride+1, (w+2*pad-kw)/stride+1
	n := 0
	for ch := range c {
		for ky := range kh {
			for kx := range kw {
				for oy := range oh {
					for ox := range ow {
						y, x, i := oy*stride+ky-pad, ox*stride+kx-pad, -1
						if y >= 0 && y < h && x >= 0 && x < w {
							i = (ch*h+y)*w + x
						}
						visit(n, i)
						n++
					}
				}
			}
		}
	}
	return n
}

func TestIm2colAndCol2imAgainstDefinition(t *testing.T) {
	r := newRand(10)
	for range 800 {
		c, h, w := 1+r.IntN(3), 1+r.IntN(9), 1+r.IntN(9)
		kh, kw, stride, pad := 1+r.IntN(5), 1+r.IntN(5), 1+r.IntN(3), r.IntN(5)
		if h+2*pad < kh || w+2*pad < kw {
			continue
		}
		n := unfoldNaive(c, h, w, kh, kw, stride, pad, func(int, int) {})
		img, col := randVec(r, c*h*w), randVec(r, n)
		wantCol, wantImg := make([]float32, n), slices.Clone(img)
		unfoldNaive(c, h, w, kh, kw, stride, pad, func(x, i int) {
			if i >= 0 {
				wantCol[x] = img[i]
				wantImg[i] += col[x]
			}
		})
		gotImg, gotCol := slices.Clone(img), slices.Clone(col)
		Im2col(gotCol, img, c, h, w, kh, kw, stride, pad)
		Col2im(gotImg, col, c, h, w, kh, kw, stride, pad)
		if !sameBits(gotCol, wantCol) || !sameBits(gotImg, wantImg) {
			t.Fatalf("c=%d h=%d w=%d kh=%d kw=%d stride=%d pad=%d differs", c, h, w, kh, kw, stride, pad)
		}
	}
}

func TestIm2colPanics(t *testing.T) {
	for i, f := range []func(){
		func() { Im2col(make([]float32, 9), make([]float32, 8), 1, 3, 3, 1, 1, 1, 0) },
		func() { Im2col(make([]float32, 8), make([]float32, 9), 1, 3, 3, 1, 1, 1, 0) },
		func() { Col2im(make([]float32, 9), make([]float32, 9), 1, 3, 3, 4, 1, 1, 0) },
		func() { Col2im(make([]float32, 9), make([]float32, 9), 1, 3, 3, 1, 1, 0, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("case %d did not panic", i)
				}
			}()
			f()
		}()
	}
}

func BenchmarkIm2col(b *testing.B) {
	img, col := make([]float32, 32*14*14), make([]float32, 800*196)
	b.Run("Im2col", func(b *testing.B) {
		b.SetBytes(int64(4 * len(col)))
		for b.Loop() {
			Im2col(col, img, 32, 14, 14, 5, 5, 1, 2)
		}
	})
	b.Run("Col2im", func(b *testing.B) {
		b.SetBytes(int64(4 * len(col)))
		for b.Loop() {
			Col2im(img, col, 32, 14, 14, 5, 5, 1, 2)
		}
	})
}
