package compress

import (
	"errors"
	"math"
	"sync"

	"github.com/gradlab/gradlab/compress/bits"
)

var _ = Families.Add("entropy", "a lossless stage behind a codec",
	Entropy{In: QSGD{Bits: 4, Bucket: 512, Norm: "max"}, Coder: "huff0"})

// Entropy codes the payload of another codec without loss.
//
//	payload = coder(payload of the codec inside), or that as it is where it is shorter
//
// Gradients hold no repeated strings, so only entropy coding pays, and only
// where symbols are few and unlike. 4-bit levels of normal data shrink by a
// quarter, sparse ternary ones to a third and less, 32-bit floats not at all.
// The coders are github.com/klauspost/compress's; blocks that do not shrink are
// stored. Alistarh et al. 2017 (QSGD) use Elias codes to the same end.
//
// Tuning: huff0; fse where a symbol takes less than a bit (terngrad), zstd or s2
// for many zeros in a row. Put feedback outside: feedback(entropy(…)).
//
// Cost: what the coder takes, 0.2 to 1 GB/s of payload; one more byte for each
// 64 KiB stored.
//
// Payload: see bits.Coder.
type Entropy struct {
	In    Family `doc:"the codec inside"`
	Coder string `spec:",show" doc:"huff0, fse, zstd or s2"`
}

// Inner lists the codec inside.
func (f Entropy) Inner() []Family { return []Family{f.In} }

// Validate checks the options.
func (f Entropy) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	if err := noReceiver("entropy", f.In); err != nil {
		return err
	}
	return oneOf("coder", f.Coder, bits.Coders...)
}

// Claims are the inner codec's, but the payload's length depends on the data and
// payloads no longer add up.
func (f Entropy) Claims(b Block) Claims {
	c, _ := ClaimsOf(f.In, b)
	coder, err := bits.NewCoder(word(f.Coder, "huff0"))
	if err == nil && c.Size < math.MaxInt32 {
		c.Size, c.Allocs = coder.MaxLen(c.Size), c.Allocs+coder.Allocs(c.Size)
	}
	c.Exact, c.Raw, c.Cast, c.Linear = false, false, false, NotLinear
	c.Rounds, c.Asked, c.AskedBound, c.HalfSums = 0, 0, false, false // its payloads are gathered
	return c
}

// Witness is the inner codec's.
func (f Entropy) Witness(b Block) []float32 {
	if w, ok := f.In.(Witnesser); ok {
		return w.Witness(b)
	}
	return nil
}

// New makes a codec with the state of the one inside.
func (f Entropy) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	in, err := f.In.New(b)
	if err != nil {
		return nil, err
	}
	coder, err := bits.NewCoder(word(f.Coder, "huff0"))
	if err != nil {
		return nil, err
	}
	claims, _ := ClaimsOf(f.In, b)
	c := &entropy{in: in, coder: coder, limit: min(claims.Size, 1<<31-1)}
	c.spaces.New = func() any { return new([]byte) }
	return stateOf(c, in), nil
}

type entropy struct {
	in     Codec
	coder  *bits.Coder
	limit  int // longest inner payload
	plain  []byte
	spaces sync.Pool // *[]byte: expanded payloads
}

func (c *entropy) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	var err error
	if c.plain, err = c.in.Append(c.plain[:0], g, s); err != nil {
		return dst, err
	}
	return c.coder.Append(dst, c.plain), nil
}

func (c *entropy) AddTo(dst []float32, scale float32, p []byte, from From) error {
	plain := c.spaces.Get().(*[]byte)
	defer c.spaces.Put(plain)
	var err error
	if *plain, err = c.coder.Expand((*plain)[:0], p, c.limit); err != nil {
		return Corruptf("%v", err)
	}
	return c.in.AddTo(dst, scale, *plain, from)
}
