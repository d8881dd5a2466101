package grpcnet

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

// pool hands gRPC its receive buffers. Unlike gRPC's own it does not clear
// them: every byte is written before it is read.
type pool struct{ classes [25]sync.Pool }

var recvPool mem.BufferPool = new(pool)

// Get returns a slice of the length with unspecified contents.
func (p *pool) Get(n int) *[]byte {
	class := 0
	if n > 1 {
		class = bits.Len(uint(n - 1))
	}
	if class >= len(p.classes) {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p.classes[class].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<class)
	return &b
}

// Put takes a slice back.
func (p *pool) Put(b *[]byte) {
	if c := cap(*b); c > 0 {
		if class := bits.Len(uint(c)) - 1; class < len(p.classes) {
			p.classes[class].Put(b)
		}
	}
}

// written is a comm.Buffer seen as the pool its bytes go back to: gRPC's Put
// says that a piece of it was written out, and drops one reference.
type written comm.Buffer

// Get is never asked for: the buffers come from the frames.
func (*written) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put drops one reference.
func (w *written) Put(*[]byte) { (*comm.Buffer)(w).Release() }

// copyLimit is the size up to which a body is copied: below it gRPC never says
// that a buffer was written out.
const copyLimit = 1 << 10

// lend makes a piece of a body sendable without a copy. It takes over one
// reference to buf, which may be nil for bytes that belong to nobody.
func lend(piece []byte, buf *comm.Buffer) mem.Buffer {
	piece = piece[:len(piece):len(piece)] // gRPC decides by capacity
	if buf == nil {
		return mem.SliceBuffer(piece)
	}
	if len(piece) <= copyLimit {
		b := append([]byte(nil), piece...)
		buf.Release()
		return mem.SliceBuffer(b)
	}
	return mem.NewBuffer(&piece, (*written)(buf))
}
