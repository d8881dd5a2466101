package grpcnet

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
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

// message takes one of a stream that begins or continues a frame and says whether the frame
// is whole.
func message(a *lane.Inbox, kind byte, c *cursor) (done bool, err error) {
	if err := check(a, kind, c); err != nil {
		return false, err
	}
	if kind == msgFrame {
		var hdr [comm.HeaderSize]byte
		if err := a.Begin(hdr[:c.fill(hdr[:])]); err != nil {
			return false, err
		}
	} else if !a.Open() {
		return false, errors.New("a chunk outside any frame")
	}
	for b := c.next(math.MaxInt); b != nil; b = c.next(math.MaxInt) {
		if a.Add(b) < len(b) {
			return false, errors.New("bytes after the end of a frame")
		}
	}
	return a.Whole(), nil
}

// check reads the rest of a message's prefix and, if there is one, its checksum,
// before a byte of the body counts.
func check(a *lane.Inbox, kind byte, c *cursor) error {
	var b [prefixSize - 1 + sumSize]byte
	prefix := b[:prefixSize-1]
	if c.fill(prefix) < len(prefix) {
		return lane.ErrTruncated
	}
	if (prefix[0] == 1) != a.Checked || prefix[0] > 1 || prefix[1] != 0 {
		return fmt.Errorf("a message checked in manner %d, %d", prefix[0], prefix[1])
	}
	if !a.Checked {
		return nil
	}
	if c.fill(b[prefixSize-1:]) < sumSize {
		return lane.ErrTruncated
	}
	sum := lane.Sum(0, []byte{kind})
	for ahead := *c; ; {
		p := ahead.next(math.MaxInt)
		if p == nil {
			break
		}
		sum = lane.Sum(sum, p)
	}
	if want := le.Uint32(b[prefixSize-1:]); sum != want {
		return fmt.Errorf("message checksum %08x, computed %08x", want, sum)
	}
	return nil
}
