package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"math"
	"math/rand/v2"
	"testing"
)

// plane is a component of a decoded picture, at its own resolution.
func plane(img image.Image, c int) (pix []uint8, stride int) {
	switch m := img.(type) {
	case *image.Gray:
		return m.Pix, m.Stride
	case *image.YCbCr:
		if c == 0 {
			return m.Y, m.YStride
		}
		return [][]uint8{nil, m.Cb, m.Cr}[c], m.CStride
	}
	return nil, 0
}

// specified is component c of p by the definition of the scaled inverse DCT, in
// float64: rows of all blocks, at n samples a block.
func (p *drawing) specified(c, n int) (pix []float64, stride int) {
	stride = p.across[c] * n
	pix = make([]float64, stride*len(p.coef[c])/p.across[c]*n)
	var cosine [8][8]float64
	for u := range n {
		for x := range n {
			cosine[u][x] = math.Cos(float64(2*x+1) * float64(u) * math.Pi / float64(2*n))
			if u == 0 {
				cosine[u][x] = math.Sqrt(0.5)
			}
		}
	}
	for i, f := range p.coef[c] {
		var freq [64]float64
		for k, at := range natural[:64] {
			freq[at] = float64(f[k]) * float64(p.quant[min(c, 1)][k])
		}
		for y := range n {
			for x := range n {
				sum := 0.0
				for v := range n {
					for u := range n {
						sum += freq[8*v+u] * cosine[u][x] * cosine[v][y]
					}
				}
				pix[(i/p.across[c]*n+y)*stride+i%p.across[c]*n+x] = min(max(sum/4+128, 0), 255)
			}
		}
	}
	return pix, stride
}

// every calls f with pictures in every form.
func every(f func(name string, p *drawing, b []byte)) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, g := range []struct{ w, h, comps, bh, bv int }{
		{70, 45, 3, 2, 2}, {33, 64, 3, 2, 1}, {50, 39, 3, 1, 2}, {40, 40, 3, 1, 1}, {90, 30, 3, 4, 1}, {65, 47, 1, 1, 1}, {1, 1, 3, 2, 2}, {9, 200, 1, 1, 1},
	} {
		p := draw(r, g.w, g.h, g.comps, g.bh, g.bv)
		for _, progressive := range []bool{false, true} {
			for _, separate := range []bool{false, true} {
				for _, interval := range []int{0, 3} {
					f(fmt.Sprintf("%+v progressive %v separate %v restarts %d", g, progressive, separate, interval), p, p.encode(progressive, separate, interval))
				}
			}
		}
	}
}

// Every size of every form of picture is what the definition says, to a level, and at
// full size what image/jpeg makes of it, to two.
func TestDecodeAgainstDefinition(t *testing.T) {
	var d Decoder
	compared := 0
	every(func(name string, p *drawing, b []byte) {
		whole := image.Rect(0, 0, p.width, p.height)
		for scale := 1; scale <= 8; scale *= 2 {
			img, err := d.Decode(b, scale, whole)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if want := image.Rect(0, 0, (p.width+scale-1)/scale, (p.height+scale-1)/scale); img.Bounds() != want {
				t.Errorf("%s, 1/%d: bounds %v, want %v", name, scale, img.Bounds(), want)
			}
			for c := range p.comps {
				got, stride := plane(img, c)
				want, across := p.specified(c, 8/scale)
				bw, bh := p.own(c)
				for y := range bh * 8 / scale {
					for x := range bw * 8 / scale {
						if e := float64(got[y*stride+x]) - want[y*across+x]; math.Abs(e) > 1 {
							t.Fatalf("%s, 1/%d: component %d at %d, %d is %d, want %.2f", name, scale, c, x, y, got[y*stride+x], want[y*across+x])
						}
					}
				}
			}
			if scale > 1 {
				continue
			}
			std, err := stdjpeg.Decode(bytes.NewReader(b))
			if err != nil {
				// In a scan of one component of several blocks an MCU it counts restarts
				// by the MCUs of all components; T.81 A.2.2 has each block an MCU.
				if bytes.Contains(b, []byte{0xff, 0xdd}) && p.h*p.v > 1 {
					continue
				}
				t.Fatalf("%s: image/jpeg: %v", name, err)
			}
			compared++
			for c := range p.comps {
				got, stride := plane(img, c)
				want, across := plane(std, c)
				bw, bh := p.own(c)
				for y := range bh * 8 {
					for x := range bw * 8 {
						if e := int(got[y*stride+x]) - int(want[y*across+x]); e < -2 || e > 2 {
							t.Fatalf("%s: component %d at %d, %d is %d, image/jpeg has %d", name, c, x, y, got[y*stride+x], want[y*across+x])
						}
					}
				}
			}
		}
	})
	if compared < 40 {
		t.Errorf("%d pictures compared with image/jpeg", compared)
	}
}

// A part is the same pixels as in the whole.
func TestPartsAreOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var whole, d Decoder
	every(func(name string, p *drawing, b []byte) {
		for scale := 1; scale <= 8; scale *= 2 {
			all, err := whole.Decode(b, scale, image.Rect(0, 0, p.width, p.height))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				x, y := r.IntN(p.width), r.IntN(p.height)
				part := image.Rect(x, y, x+1+r.IntN(p.width-x), y+1+r.IntN(p.height-y))
				img, err := d.Decode(b, scale, part)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				small := image.Rect(part.Min.X/scale, part.Min.Y/scale, (part.Max.X+scale-1)/scale, (part.Max.Y+scale-1)/scale)
				if !small.In(img.Bounds()) || !img.Bounds().In(all.Bounds()) {
					t.Fatalf("%s, 1/%d: part %v is not in %v", name, scale, small, img.Bounds())
				}
				for y := small.Min.Y; y < small.Max.Y; y++ {
					for x := small.Min.X; x < small.Max.X; x++ {
						if img.At(x, y) != all.At(x, y) {
							t.Fatalf("%s, 1/%d: part %v differs from the whole at %d, %d", name, scale, part, x, y)
						}
					}
				}
			}
		}
	})
}

// photo is a JPEG as image/jpeg writes it, with codes of all lengths.
func photo(w, h int) []byte {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(5, 6))
	for y := range h {
		for x := range w {
			v := 128 + 60*math.Sin(float64(x)/17) + 50*math.Cos(float64(y)/11+float64(x)/29) + 8*r.NormFloat64()
			img.Set(x, y, color.RGBA{uint8(min(max(v, 0), 255)), uint8(min(max(255-v, 0), 255)), uint8(x * 255 / w), 255})
		}
	}
	var out bytes.Buffer
	stdjpeg.Encode(&out, img, &stdjpeg.Options{Quality: 90})
	return out.Bytes()
}

func TestPhotoIsThatOfImageJPEG(t *testing.T) {
	b := photo(203, 150)
	var d Decoder
	c, err := d.Header(b)
	if err != nil || c != (Config{203, 150, 3}) {
		t.Fatal(c, err)
	}
	got, err := d.Decode(b, 1, image.Rect(0, 0, 203, 150))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := stdjpeg.Decode(bytes.NewReader(b))
	for y := range 150 {
		for x := range 203 {
			a, b := got.(*image.YCbCr).YCbCrAt(x, y), want.(*image.YCbCr).YCbCrAt(x, y)
			for _, e := range []int{int(a.Y) - int(b.Y), int(a.Cb) - int(b.Cb), int(a.Cr) - int(b.Cr)} {
				if e < -2 || e > 2 {
					t.Fatalf("at %d, %d: %v, want %v", x, y, a, b)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(5, func() { d.Decode(b, 2, image.Rect(20, 20, 150, 120)) }); n > 2 {
		t.Errorf("%g allocations a picture", n)
	}
}

// What is not decoded here says so, and what is cut off is an error.
func TestRefused(t *testing.T) {
	var d Decoder
	b := photo(64, 48)
	all := image.Rect(0, 0, 64, 48)
	sof := bytes.Index(b, []byte{0xff, 0xc0})
	for name, change := range map[string]func(b []byte){
		"12 bits":        func(b []byte) { b[sof+4] = 12 },
		"arithmetic":     func(b []byte) { b[sof+1] = 0xc9 },
		"four":           func(b []byte) { b[sof+9] = 4 },
		"odd subsampled": func(b []byte) { b[sof+14] = 0x22 },
		"RGB":            func(b []byte) { b[sof+10], b[sof+13], b[sof+16] = 'R', 'G', 'B' },
	} {
		bad := bytes.Clone(b)
		change(bad)
		_, err := d.Decode(bad, 1, all)
		if name != "four" && !errors.Is(err, ErrUnsupported) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range len(b) - 40 {
		if _, err := d.Decode(b[:n], 1, all); err == nil {
			t.Fatalf("%d of %d bytes are enough", n, len(b))
		}
	}
	if _, err := d.Decode(b, 3, all); err == nil {
		t.Error("scale 1/3")
	}
	if _, err := d.Decode(b, 1, image.Rect(64, 0, 70, 9)); err == nil {
		t.Error("a part outside")
	}
	if _, err := d.Decode(b, 1, all); err != nil {
		t.Errorf("after all these: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	n := 0
	every(func(_ string, p *drawing, b []byte) {
		if n++; n%5 == 0 {
			f.Add(b)
		}
	})
	f.Add(photo(40, 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		c, err := d.Header(b)
		if err != nil || c.Width*c.Height > 1<<20 {
			return
		}
		for _, scale := range []int{1, 8} {
			part := image.Rect(c.Width/3, c.Height/3, c.Width/3+1+c.Width/2, c.Height/3+1+c.Height/2)
			img, err := d.Decode(b, scale, part)
			if err != nil {
				return
			}
			r := img.Bounds()
			if r.Empty() {
				t.Fatalf("nothing of %dx%d", c.Width, c.Height)
			}
			img.At(r.Max.X-1, r.Max.Y-1)
			img.At(r.Min.X, r.Min.Y)
		}
	})
}

// BenchmarkDecode decodes a picture of ImageNet's usual size, as a whole by
// image/jpeg and here, and the middle that a 224×224 sample of 64×64 needs.
func BenchmarkDecode(b *testing.B) {
	raw := photo(500, 375)
	all := image.Rect(0, 0, 500, 375)
	b.Run("image_jpeg", func(b *testing.B) {
		for b.Loop() {
			stdjpeg.Decode(bytes.NewReader(raw))
		}
	})
	var d Decoder
	for _, c := range []struct {
		name  string
		scale int
		part  image.Rectangle
	}{{"whole", 1, all}, {"crop", 1, image.Rect(100, 60, 350, 280)}, {"half", 2, all}, {"quarter", 4, all}, {"eighth", 8, all}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := d.Decode(raw, c.scale, c.part); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
