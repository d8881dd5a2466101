package wire

import (
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// Vector is a float vector that can travel as it is: where memory looks like
// the wire, floats and the bytes of a counted buffer are the same memory, and a
// raw payload is a reference to it instead of a copy. The zero value is empty.
type Vector struct {
	f   []float32
	buf *comm.Buffer // nil: the floats are nobody's bytes
}

// NewVector returns a vector of n values with unspecified contents and one
// reference.
func NewVector(n int) Vector {
	buf := comm.NewBuffer(4 * n)
	if f, ok := f32.Floats(buf.B); ok {
		return Vector{f, buf}
	}
	buf.Release()
	return Vector{f: make([]float32, n)}
}

// Floats is the vector of x's values, which nobody counts.
func Floats(x []float32) Vector { return Vector{f: x} }

// F is the values. Who has not made the vector its Own only reads them.
func (v Vector) F() []float32 { return v.f }

// Aliased is the memory of a counted buffer as a vector, with a reference of its own; ok is
// false where floats do not look like the wire.
func Aliased(b *comm.Buffer) (v Vector, ok bool) {
	if v.f, ok = f32.Floats(b.B); ok {
		v.buf = b.Retain()
	}
	return v, ok
}

// Received is the body of f as a vector, with a reference of its own; ok is
// false where it must be decoded instead.
func Received(f comm.Frame) (v Vector, ok bool) {
	if f.Buffer() == nil {
		return v, false
	}
	if v.f, ok = f32.Floats(f.Body); ok {
		v.buf = f.Buffer().Retain()
	}
	return v, ok
}

// Release drops the reference; v is empty afterwards.
func (v *Vector) Release() {
	if v.buf != nil {
		v.buf.Release()
	}
	*v = Vector{}
}

// Share is the same values as a vector with a reference of its own, for somebody
// who reads them while v's holder goes on; Own then leaves them as they are.
func (v Vector) Share() Vector {
	if v.buf == nil {
		return Vector{f: slices.Clone(v.f)}
	}
	v.buf.Retain()
	return v
}

// Shared says whether somebody else still reads v.
func (v Vector) Shared() bool { return v.buf != nil && !v.buf.Sole() }

// Own makes v writable: if somebody else still reads it, v becomes a copy.
func (v *Vector) Own() {
	if !v.Shared() {
		return
	}
	c := NewVector(len(v.f))
	copy(c.f, v.f)
	v.Release()
	*v = c
}

// part is the values from lo on, as many as n, as a vector with a reference of its own:
// who holds it alone may write to it once v is released. No other part may have a value
// of it.
func (v Vector) part(lo, n int) Vector {
	switch p := (Vector{f: v.f[lo : lo+n]}); {
	case v.buf == nil:
		return p
	case n == len(v.f):
		p.buf = v.buf.Retain()
		return p
	default:
		p.buf = v.buf.View(4*lo, 4*(lo+n))
		return p
	}
}

// Frame is a frame over the values from lo on, as many as n, without a copy; ok
// is false where they must be written out.
func (v Vector) Frame(hd comm.Header, lo, n int) (f comm.Frame, ok bool) {
	if v.buf == nil {
		return f, false
	}
	b, ok := f32.Bytes(v.f[lo : lo+n])
	if !ok {
		return f, false
	}
	f = comm.NewFrame(hd, v.buf.Retain())
	if f.Body = b; f.Billed > 0 {
		f.Billed = len(b)
	}
	return f, true
}

// KeepPacked keeps a shard's part of a vector that is as long as the parameters: the
// observer puts the parts of all shards together.
func KeepPacked(k *checkpoint.Keeper, name string, sh *Shard, v []float32, size int) {
	if !k.Loads() || k.Own || k.Err() != nil {
		k.Vector(name, v)
		return
	}
	full := make([]float32, size)
	if k.Vector(name, full); k.Err() == nil {
		sh.Gather(v, full)
	}
}
