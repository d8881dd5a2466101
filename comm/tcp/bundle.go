package tcp

import (
	"sync/atomic"
	"time"
)

// block is how much of a bundle's bytes goes over one of its pipes before the next one's turn.
const block = 64 << 10

// Bundle is several pipes to one peer as one: what is limited by a connection, by the
// system's bound on what it may have under way or by losses, is so for each of them. Both
// ends know which pipe has which bytes: a block in turn. Who may call what is as for a Pipe.
type Bundle struct {
	pipes   []*Pipe
	out     int // the pipe whose turn it is
	outLeft int // bytes of its block that are not written
	in      atomic.Int32
	inLeft  int
	waits   atomic.Int32 // whose bytes Wait waits for
	part    [][]byte
}

// NewBundle makes a bundle of pipes, of which both ends have the same in the same order.
func NewBundle(pipes []*Pipe) *Bundle {
	return &Bundle{pipes: pipes, outLeft: block, inLeft: block}
}

// Push is that of a Pipe.
func (b *Bundle) Push(v *[][]byte) (done bool, err error) {
	for {
		b.part = cutOff(b.part[:0], *v, b.outLeft)
		size := length(b.part)
		part := b.part
		done, err := b.pipes[b.out].Push(&part)
		gone := size - length(part)
		advance(v, gone)
		b.outLeft -= gone
		if !done || err != nil {
			return false, err
		}
		if b.outLeft > 0 || length(*v) == 0 {
			if b.outLeft == 0 {
				b.out, b.outLeft = (b.out+1)%len(b.pipes), block
			}
			return true, nil
		}
		b.out, b.outLeft = (b.out+1)%len(b.pipes), block
	}
}

// cutOff appends the first n bytes of v to dst.
func cutOff(dst, v [][]byte, n int) [][]byte {
	for _, b := range v {
		if n == 0 {
			break
		}
		k := min(n, len(b))
		dst = append(dst, b[:k])
		n -= k
	}
	return dst
}

func length(v [][]byte) (n int) {
	for _, b := range v {
		n += len(b)
	}
	return n
}

// Await is that of a Pipe.
func (b *Bundle) Await() error { return b.pipes[b.out].Await() }

// Look is that of a Pipe.
func (b *Bundle) Look() ([]byte, error) {
	p, err := b.pipes[b.in.Load()].Look()
	return p[:min(len(p), b.inLeft)], err
}

// Consume is that of a Pipe.
func (b *Bundle) Consume(n int) {
	b.pipes[b.in.Load()].Consume(n)
	b.took(n)
}

// took gives the turn on when a block is read.
func (b *Bundle) took(n int) {
	if b.inLeft -= n; b.inLeft == 0 {
		b.inLeft = block
		b.in.Store((b.in.Load() + 1) % int32(len(b.pipes)))
	}
}

// Fill is that of a Pipe.
func (b *Bundle) Fill(dst []byte) (n int, err error) {
	for n < len(dst) {
		k, err := b.pipes[b.in.Load()].Fill(dst[n:min(len(dst), n+b.inLeft)])
		n += k
		b.took(k)
		if k == 0 || err != nil {
			return n, err
		}
	}
	return n, nil
}

// Wait is that of a Pipe.
func (b *Bundle) Wait() {
	b.waits.Store(b.in.Load())
	if at := b.waits.Load(); at == b.in.Load() {
		b.pipes[at].Wait()
	}
}

// Leave is that of a Pipe.
func (b *Bundle) Leave() {
	in, waits := b.in.Load(), b.waits.Load()
	if in != waits {
		b.pipes[waits].wake()
	}
	b.pipes[in].Leave()
}

// Again is that of a Pipe.
func (b *Bundle) Again(looks int) bool { return b.pipes[0].Again(looks) }

// FinishBy is that of a Pipe.
func (b *Bundle) FinishBy(at time.Time) {
	for _, p := range b.pipes {
		p.FinishBy(at)
	}
}

// Crossed is that of a Pipe.
func (b *Bundle) Crossed() (sent, read uint64) {
	for _, p := range b.pipes {
		s, r := p.Crossed()
		sent, read = sent+s, read+r
	}
	return sent, read
}

// Close is that of a Pipe.
func (b *Bundle) Close() {
	for _, p := range b.pipes {
		p.Close()
	}
}

// Release is that of a Pipe.
func (b *Bundle) Release() {
	for _, p := range b.pipes {
		p.Release()
	}
}
