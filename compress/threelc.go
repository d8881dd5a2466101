package compress

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("threelc", "three levels and zero runs", ThreeLC{S: 1})

// ThreeLC rounds to three levels and codes runs of zeros.
//
//	C(g)ᵢ = M·round(gᵢ/M),  M = s·max|g|,  1 ≤ s < 2, so round(…) ∈ {−1, 0, 1}
//
// Lim, Andersen and Kaminsky 2019 (arXiv 1802.07389), section 3: sparsity
// multiplier, five trits a byte, and zero-run encoding, where bytes 243 to 255
// stand for 2 to 14 bytes of five zeros. A contraction with δ = s(2−s)/(1 +
// (d−1)s²/4), attained by one element 1 among others just under s/2.
//
// Departures: the memory is feedback's, outside.
//
// Tuning: feedback(threelc(s=1.75)); a larger s sends fewer elements.
//
// Cost: at most 1.6 bits an element, 0.3 to 0.8 on sparse data; two passes.
//
// Payload: M as float32, then the bytes.
type ThreeLC struct {
	S float64 `spec:",show" doc:"sparsity multiplier, from 1 to below 2"`
}

// Validate checks the options.
func (f ThreeLC) Validate() error {
	if !(f.S >= 1 && f.S < 2) {
		return fmt.Errorf(`option "s": want a multiplier from 1 to below 2, not %v`, f.S)
	}
	return nil
}

// Claims: the bound above.
func (f ThreeLC) Claims(b Block) Claims {
	d, c := b.Len(), Claims{Delta: 1, Homogeneous: true}
	if d > 0 {
		c.Size = 4 + tritLen(d)
		c.Delta = f.S * (2 - f.S) / (1 + float64(float64(d-1)*f.S*f.S/4)) * (1 - 1e-6) // M is rounded
	}
	return c
}

// Witness is one element among others just too small to be sent.
func (f ThreeLC) Witness(b Block) []float32 {
	x := constant(b.Len(), float32(f.S/2)*(1-0x1p-20))
	if len(x) > 0 {
		x[0] = 1
	}
	return x
}

// New makes a codec without state.
func (f ThreeLC) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &threeLC{d: b.Len(), s: f.S}, nil
}

type threeLC struct {
	d int
	s float64
}

const (
	fiveZeros = 121 // the byte of five trits 1, which stand for 0
	shortRun  = 2   // bytes of zeros that 243 stands for
	longRun   = 14  // that 255 stands for
)

func (c *threeLC) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.d == 0 {
		return dst, nil
	}
	most := f32.MaxAbs(g)
	m := float32(c.s * float64(most))
	if !(m <= math.MaxFloat32) { // or M itself does not fit
		return dst, ErrNotFinite
	}
	dst = formatF32.put(dst, m)
	run := 0
	var codes [tritChunk]byte
	var packed [tritChunk / 5]byte
	for ; len(g) > 0; g = g[min(tritChunk, len(g)):] {
		n := min(tritChunk, len(g))
		ternary(codes[:n], g, m)
		trits := packed[:tritLen(n)]
		codec.PackTrits(trits, codes[:n])
		for _, b := range trits {
			if b == fiveZeros && run < longRun {
				run++
				continue
			}
			dst = appendRun(dst, run)
			run = 0
			if b == fiveZeros {
				run = 1
				continue
			}
			dst = append(dst, b)
		}
	}
	return appendRun(dst, run), nil
}

// ternary codes round(x/m) + 1, zeros if m is 0.
func ternary(codes []byte, x []float32, m float32) {
	if m > 0 {
		codec.Ternary(codes, x[:len(codes)], m/2)
		return
	}
	for i := range codes {
		codes[i] = 1
	}
}

// appendRun writes run bytes of five zeros.
func appendRun(dst []byte, run int) []byte {
	switch run {
	case 0:
		return dst
	case 1:
		return append(dst, fiveZeros)
	}
	return append(dst, byte(243+run-shortRun))
}

func (c *threeLC) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if c.d == 0 {
		if len(p) > 0 {
			return Corruptf("%d bytes, want 0", len(p))
		}
		return nil
	}
	if len(p) < 4 {
		return Corruptf("%d bytes, want a scale", len(p))
	}
	if err := checkNorms(p[:4]); err != nil {
		return err
	}
	m, p := formatF32.get(p, 0), p[4:]
	left := c.d
	for i, b := range p {
		switch {
		case left == 0:
			return Corruptf("bytes behind the last trit")
		case b >= 243:
			left -= 5 * (int(b) - 243 + shortRun)
		case left < 5 && int(b) >= pow3[left]:
			return Corruptf("byte %d holds trits beyond the last", i)
		default:
			left -= min(5, left)
		}
		if left < 0 {
			return Corruptf("a run of zeros beyond the last element")
		}
	}
	if left > 0 {
		return Corruptf("%d elements are missing", left)
	}
	v := float32(scale * m)
	values := [3]float32{-v, 0, v}
	for _, b := range p {
		if b >= 243 {
			dst = dst[5*(int(b)-243+shortRun):]
			continue
		}
		n := min(5, len(dst))
		for i, t := range trinary[b][:n] {
			dst[i] += values[t]
		}
		dst = dst[n:]
	}
	return nil
}

// trinary is the five digits of a byte, lowest first.
var trinary = func() (t [243][5]byte) {
	for code := range t {
		for i, c := 0, code; i < 5; i, c = i+1, c/3 {
			t[code][i] = byte(c % 3)
		}
	}
	return
}()
