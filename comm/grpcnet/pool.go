package grpcnet

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
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
