package compress

import (
	"runtime"

	"github.com/gradlab/gradlab/internal/f32"
)

// Simple makes a codec without state of two functions, for a block of b.Len() elements.
//
// encode appends what is sent of g, which is finite, to dst. decode writes what p stands
// for into out, which is zero, and returns the bytes it left over. It may index p without
// a look at its length: a payload that is too short or too long, and values that are not
// finite, are refused, and the caller's vector stays as it was.
//
// The codec refuses gradients with NaN or Inf. Encoding and decoding allocate what the two
// functions do.
func Simple(b Block, encode func(dst []byte, g []float32, s Step) []byte, decode func(out []float32, p []byte, from From) (rest []byte)) Codec {
	return &simple{encode: encode, decode: decode, out: make([]float32, b.Len())}
}

type simple struct {
	encode func(dst []byte, g []float32, s Step) []byte
	decode func(out []float32, p []byte, from From) (rest []byte)
	out    []float32 // decoded
}

// Append implements Codec.
func (c *simple) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	if len(g) != len(c.out) {
		panic("compress: the gradient has another length than the block")
	}
	if !f32.AllFinite(g) {
		return dst, ErrNotFinite
	}
	return c.encode(dst, g, s), nil
}

// AddTo implements Codec.
func (c *simple) AddTo(dst []float32, scale float32, p []byte, from From) error {
	clear(c.out)
	rest, err := c.read(p, from)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return Corruptf("%d of %d bytes are left over", len(rest), len(p))
	case !f32.AllFinite(c.out):
		return Corruptf("a value is not finite")
	}
	f32.Axpy(dst, scale, c.out)
	return nil
}

// read decodes p. An index out of range, as of a payload that is too short, is an error.
func (c *simple) read(p []byte, from From) (rest []byte, err error) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case runtime.Error:
			err = Corruptf("%d bytes do not decode: %v", len(p), why)
		default:
			panic(why)
		}
	}()
	return c.decode(c.out, p, from), nil
}
