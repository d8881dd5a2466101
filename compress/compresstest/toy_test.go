package compresstest_test

// This file is the example of CONTRIBUTING.md: everything between the markers
// is a complete codec. In compress it would be the file stride.go, without the
// "compress." in front of every name.

// begin example
import (
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
)

// stride keeps every n-th element, another residue class each step.
//
//	C(g)ᵢ = gᵢ if (i + step) mod n = 0, else 0
//
// Tuning: n=4, without feedback: no contraction is claimed, as a class may hold
// none of the weight. Cost: 4/n bytes an element.

var _ = compress.Families.Add("stride", "every n-th element in turn", Stride{N: 4})

// Stride sends one residue class of the indices per step.
type Stride struct {
	N int `spec:",show" doc:"classes, at least 1"`
}

// Validate checks the options.
func (f Stride) Validate() error {
	if f.N < 1 {
		return fmt.Errorf(`option "n": want at least 1, not %d`, f.N)
	}
	return nil
}

// Claims: the size is that of the largest class.
func (f Stride) Claims(b compress.Block) compress.Claims {
	return compress.Claims{Size: 4 * ((b.Len() + f.N - 1) / f.N), Homogeneous: true}
}

// New makes a codec without state.
func (f Stride) New(b compress.Block) (compress.Codec, error) { return stride{f.N, b.Len()}, nil }

type stride struct{ n, d int }

// first is the first index of the step's class.
func (c stride) first(step int) int { return (c.n - step%c.n) % c.n }

func (c stride) Append(dst []byte, g []float32, s compress.Step) ([]byte, error) {
	if !f32.AllFinite(g) {
		return dst, compress.ErrNotFinite
	}
	for i := c.first(s.N); i < c.d; i += c.n {
		dst = f32.AppendBytes(dst, g[i:i+1])
	}
	return dst, nil
}

func (c stride) AddTo(dst []float32, scale float32, p []byte, from compress.From) error {
	i := c.first(from.Step)
	if want := 4 * max(0, (c.d-i+c.n-1)/c.n); len(p) != want {
		return compress.Corruptf("%d bytes, want %d", len(p), want)
	}
	if !compress.AllFinite(p) {
		return compress.Corruptf("a value is not finite")
	}
	for ; i < c.d; i, p = i+c.n, p[4:] {
		f32.AddBytes(dst[i:i+1], scale, p[:4])
	}
	return nil
}

// end example
