package parts

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// leftover sends a window of n values, the next one each step, and keeps the others.
//
//	r = r + g;  send r where the window is;  r = 0 there
//
// Tuning: a value waits for d/n steps, so n is a tenth of a tensor and more. Without
// feedback, which is inside.
// Cost: four bytes a value of the window and four for its place; four bytes of state a
// value.

var _ = compress.Families.Add("leftover", "a window of what has not been sent, the next one each step", Leftover{N: 64})

// Leftover is a codec with a memory.
type Leftover struct {
	N int `spec:",show" doc:"values sent, at least 1"`
}

// Validate checks the options.
func (f Leftover) Validate() error {
	if f.N < 1 {
		return fmt.Errorf(`option "n": want at least 1, not %d`, f.N)
	}
	return nil
}

// Claims: a state, which remembers what is left out if anything is.
func (f Leftover) Claims(b compress.Block) compress.Claims {
	n := min(f.N, b.Len())
	return compress.Claims{Size: 4 + 4*n, Exact: true, Stateful: true, Remembers: n < b.Len()}
}

// New makes a codec whose state is what has not been sent.
func (f Leftover) New(b compress.Block) (compress.Codec, error) {
	d := b.Len()
	return &leftover{n: min(f.N, d), rest: make([]float32, d), next: make([]float32, d)}, f.Validate()
}

type leftover struct {
	n          int
	from       uint32    // where the window begins; it goes round at the end
	rest, next []float32 // what has not been sent, and that with the gradient
}

// Append sends the window's place and its values.
func (c *leftover) Append(dst []byte, g []float32, _ compress.Step) ([]byte, error) {
	for i, v := range g {
		if v += c.rest[i]; v-v != 0 {
			return dst, compress.ErrNotFinite
		}
		c.next[i] = v
	}
	dst = binary.LittleEndian.AppendUint32(dst, c.from)
	for k := range c.n {
		i := (int(c.from) + k) % len(g)
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(c.next[i]))
		c.next[i] = 0
	}
	if c.n > 0 {
		c.from = uint32((int(c.from) + c.n) % len(g))
	}
	c.rest, c.next = c.next, c.rest
	return dst, nil
}

// AddTo checks everything before it writes anything: any bytes may come in.
func (c *leftover) AddTo(dst []float32, scale float32, p []byte, _ compress.From) error {
	if len(p) != 4+4*c.n || !compress.AllFinite(p[4:]) {
		return compress.Corruptf("%d bytes, want %d with finite values", len(p), 4+4*c.n)
	}
	from := binary.LittleEndian.Uint32(p)
	if from > 0 && from >= uint32(len(dst)) {
		return compress.Corruptf("a window from %d of %d", from, len(dst))
	}
	for k := range c.n {
		v := math.Float32frombits(binary.LittleEndian.Uint32(p[4+4*k:]))
		dst[(int(from)+k)%len(dst)] += float32(scale * v)
	}
	return nil
}

// ResidualNorm is the norm of what has not been sent.
func (c *leftover) ResidualNorm() float64 {
	s := 0.0
	for _, v := range c.rest {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}

// AppendBinary appends the window's place and what has not been sent, for a checkpoint.
func (c *leftover) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, c.from)
	for _, v := range c.rest {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b, nil
}

// UnmarshalBinary restores them.
func (c *leftover) UnmarshalBinary(b []byte) error {
	d := len(c.rest)
	if len(b) != 4+4*d || !compress.AllFinite(b[4:]) {
		return compress.Corruptf("state of %d bytes, want %d with finite values", len(b), 4+4*d)
	}
	from := binary.LittleEndian.Uint32(b)
	if from > 0 && from >= uint32(d) {
		return compress.Corruptf("a window from %d of %d", from, d)
	}
	for i := range c.rest {
		c.rest[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4+4*i:]))
	}
	c.from = from
	return nil
}
