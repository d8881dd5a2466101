package comm

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is a counted byte slice from a pool. It starts with one reference.
type Buffer struct {
	B    []byte
	refs atomic.Int64 // and, in the upper half, the views of it
	loan *Loan        // nil: the bytes are the pool's
	of   *Buffer      // whose bytes these are, of a view
}

// view is one in the count of views.
const view = 1 << 32

// Capacities are powers of two and, beyond coarse, seven sizes between each two of them:
// what a model of a hundred megabytes keeps is not rounded up to 128.
const (
	coarse = 16 // bits of the last capacity without sizes between
	fine   = 3  // bits of the sizes between two powers
	most   = 33 // bits of capacities that are pooled
)

var views = sync.Pool{New: func() any { return new(Buffer) }}

var pools [coarse + 1 + (most-coarse)<<fine]sync.Pool

// classOf is the first class whose capacity is at least n, and that capacity.
func classOf(n int) (class, capacity int) {
	if n <= 1<<coarse {
		class = bits.Len(uint(max(n, 1) - 1))
		return class, 1 << class
	}
	octave := bits.Len(uint(n-1)) - 1 // 2^octave < n
	step := 1 << (octave - fine)
	steps := (n - 1<<octave + step - 1) / step // 1 to 2^fine
	return coarse + (octave-coarse)<<fine + steps, 1<<octave + steps*step
}

// NewBuffer returns a buffer of length n and at least that capacity, with
// unspecified contents and one reference.
func NewBuffer(n int) *Buffer {
	class, capacity := classOf(n)
	var b *Buffer
	if class < len(pools) {
		b, _ = pools[class].Get().(*Buffer)
	} else {
		capacity = n
	}
	if b == nil {
		b = &Buffer{B: make([]byte, 0, capacity)}
	}
	b.B = b.B[:n]
	b.refs.Store(1)
	return b
}

// Retain adds a reference.
func (b *Buffer) Retain() *Buffer { b.refs.Add(1); return b }

// View is b's bytes from lo to hi as a buffer of its own, with one reference. b stays
// until its last one is released. No two views may have a byte in common.
func (b *Buffer) View(lo, hi int) *Buffer {
	b.refs.Add(view)
	v := views.Get().(*Buffer)
	v.B, v.of = b.B[lo:hi:hi], b
	v.refs.Store(1)
	return v
}

// Of is the buffer that b is a view of, nil if it is none.
func (b *Buffer) Of() *Buffer { return b.of }

// Sole reports whether the caller's reference is the only one: then nobody else
// reads the bytes, and the caller may write to them. A view's are read by those, too,
// who hold a reference to what it is a view of.
func (b *Buffer) Sole() bool {
	return b.refs.Load() == 1 && (b.of == nil || int32(b.of.refs.Load()) == 0)
}

// Release drops a reference; the last one gives the buffer back to the pool.
// Releasing more often than retaining panics: the bytes may already be
// somebody else's.
func (b *Buffer) Release() { b.drop(1) }

func (b *Buffer) drop(n int64) {
	switch n = b.refs.Add(-n); {
	case int32(n) < 0 || n < 0:
		panic("comm: Buffer released more often than retained")
	case n == 0 && b.of != nil:
		of := b.of
		b.B, b.of = nil, nil
		views.Put(b)
		of.drop(view)
	case n == 0 && b.loan != nil:
		b.loan.back <- struct{}{}
	case n == 0 && cap(b.B) > 0:
		class, capacity := classOf(cap(b.B))
		if capacity > cap(b.B) {
			class-- // it serves those
		}
		if class < len(pools) {
			pools[class].Put(b)
		}
	}
}
