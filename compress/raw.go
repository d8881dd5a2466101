package compress

import "github.com/gradlab/gradlab/internal/f32"

var _ = Families.Add("raw", "float32 as it is", Raw{})

// Raw sends float32 as it is, little-endian.
//
//	C(g) = g
//
// NaN and Inf arrive as they are. It is the baseline for bytes; bf16 is the fairer
// one for time (Han et al. 2024).
//
// Paper: none.
//
// Tuning: none.
//
// Cost: 4 bytes an element, a memory copy.
type Raw struct{}

// Claims: lossless.
func (Raw) Claims(b Block) Claims {
	return Claims{
		Lossless: true, Raw: true, Cast: true, Unbiased: true, Delta: 1, Size: 4 * b.Len(), Exact: true,
		Linear: FloatSum, Special: SpecialPropagate, Homogeneous: true,
	}
}

// New makes a codec without state.
func (Raw) New(b Block) (Codec, error) { return raw{b.Len()}, nil }

type raw struct{ d int }

func (c raw) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	return f32.AppendBytes(dst, g), nil
}

func (c raw) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if len(p) != 4*c.d {
		return Corruptf("%d bytes, want %d", len(p), 4*c.d)
	}
	f32.AddBytes(dst, scale, p)
	return nil
}

func (c raw) WireLen() int { return c.d }

func (c raw) Wire() Wire { return F32 }

func (c raw) Project(dst, g []float32, _ Step) error {
	checkLen(len(g), c.d)
	copy(dst, g)
	return nil
}

func (c raw) Lift(dst []float32, scale float32, sum []float32, _ Step) error {
	checkLen(len(dst), c.d)
	f32.Axpy(dst, scale, sum)
	return nil
}
