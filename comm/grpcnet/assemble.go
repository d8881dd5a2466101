package grpcnet

import (
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

// cursor reads through the pieces of a message without copying them together.
// Pieces end anywhere: HTTP/2 frames and flow control cut as they like.
type cursor struct {
	s   mem.BufferSlice
	i   int
	off int
}

// next returns up to n bytes that lie together, nil at the end.
func (c *cursor) next(n int) []byte {
	for c.i < len(c.s) {
		b := c.s[c.i].ReadOnlyData()[c.off:]
		if len(b) == 0 {
			c.i, c.off = c.i+1, 0
			continue
		}
		b = b[:min(n, len(b))]
		c.off += len(b)
		return b
	}
	return nil
}

// fill copies into dst and returns how much there was.
func (c *cursor) fill(dst []byte) int {
	n := 0
	for n < len(dst) {
		b := c.next(len(dst) - n)
		if b == nil {
			break
		}
		n += copy(dst[n:], b)
	}
	return n
}

// firstAlloc is the most a header alone makes us allocate; a longer body grows
// as its bytes come in.
const firstAlloc = 64 << 20

// assembler puts the chunks of one frame after the other together again.
type assembler struct {
	max  int // bytes of body accepted
	open bool
	h    comm.Header
	bill int
	size int
	buf  *comm.Buffer
	got  int
	crc  uint32
	tail [trailerSize]byte
	end  int // bytes of tail
}

// start begins a frame with its first chunk.
func (a *assembler) start(c *cursor) (comm.Frame, bool, error) {
	if a.open {
		a.drop()
		return comm.Frame{}, false, errors.New("a frame begins inside another")
	}
	var hdr [headerSize]byte
	n := c.fill(hdr[:])
	h, bill, size, err := parseHeader(hdr[:n], a.max)
	if err != nil {
		return comm.Frame{}, false, err
	}
	a.open, a.h, a.bill, a.size, a.got, a.end = true, h, bill, size, 0, 0
	a.crc = crc32.Update(0, castagnoli, hdr[:])
	a.buf = nil
	if size > 0 {
		a.buf = comm.NewBuffer(min(size, firstAlloc))
	}
	return a.more(c)
}

// more takes a further chunk and says whether the frame is whole.
func (a *assembler) more(c *cursor) (f comm.Frame, done bool, err error) {
	if !a.open {
		return f, false, errors.New("a chunk outside any frame")
	}
	for a.got < a.size {
		if a.got == len(a.buf.B) {
			bigger := comm.NewBuffer(min(a.size, 2*len(a.buf.B)))
			copy(bigger.B, a.buf.B)
			a.buf.Release()
			a.buf = bigger
		}
		b := c.next(len(a.buf.B) - a.got)
		if b == nil {
			return f, false, nil
		}
		a.crc = crc32.Update(a.crc, castagnoli, b)
		a.got += copy(a.buf.B[a.got:], b)
	}
	a.end += c.fill(a.tail[a.end:])
	if a.end < trailerSize {
		return f, false, nil
	}
	if c.next(1) != nil {
		a.drop()
		return f, false, errors.New("bytes after the end of a frame")
	}
	if sum := le.Uint32(a.tail[:]); sum != a.crc {
		a.drop()
		return f, false, fmt.Errorf("frame checksum %08x, computed %08x", sum, a.crc)
	}
	f = comm.NewFrame(a.h, a.buf)
	f.Billed = a.bill
	a.open, a.buf = false, nil
	return f, true, nil
}

// drop forgets a frame that is not whole.
func (a *assembler) drop() {
	if a.buf != nil {
		a.buf.Release()
	}
	a.open, a.buf = false, nil
}
