package comm

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is a counted byte slice from a pool. It starts with one reference.
type Buffer struct {
	B    []byte
	refs atomic.Int32
	loan *Loan // nil: the bytes are the pool's
}

var pools [33]sync.Pool

// NewBuffer returns a buffer of length n and at least that capacity, with
// unspecified contents and one reference.
func NewBuffer(n int) *Buffer {
	class := 0
	if n > 1 {
		class = bits.Len(uint(n - 1))
	}
	var b *Buffer
	if class < len(pools) {
		b, _ = pools[class].Get().(*Buffer)
	}
	if b == nil {
		c := n
		if class < len(pools) {
			c = 1 << class
		}
		b = &Buffer{B: make([]byte, 0, c)}
	}
	b.B = b.B[:n]
	b.refs.Store(1)
	return b
}

// Retain adds a reference.
func (b *Buffer) Retain() *Buffer { b.refs.Add(1); return b }

// Sole reports whether the caller's reference is the only one: then nobody else
// reads the bytes, and the caller may write to them.
func (b *Buffer) Sole() bool { return b.refs.Load() == 1 }

// Release drops a reference; the last one gives the buffer back to the pool.
// Releasing more often than retaining panics: the bytes may already be
// somebody else's.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic("comm: Buffer released more often than retained")
	case n == 0 && b.loan != nil:
		b.loan.back <- struct{}{}
	case n == 0 && cap(b.B) > 0:
		if class := bits.Len(uint(cap(b.B))) - 1; class < len(pools) {
			pools[class].Put(b)
		}
	}
}
