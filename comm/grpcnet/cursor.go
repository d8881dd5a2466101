package grpcnet

import "google.golang.org/grpc/mem"

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
