package grpcnet

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// firstAlloc is the most a header alone makes us allocate; a longer body grows
// as its bytes come in.
const firstAlloc = 64 << 20

// timed is the least size of a body of which it is noted when it began to come:
// shorter ones are there at once.
const timed = 32 << 10

var errTruncated = errors.New("frame is cut short")

// inbox puts the frames of one road together, one after the other: into the sink
// that waits for one, or else into a buffer.
type inbox struct {
	max     int  // bytes of body accepted
	checked bool // messages carry checksums
	// claim looks for a sink; an error says that the frame has no business here.
	claim func(h *comm.Header, size, billed int, since time.Time) (c comm.Claim, ok bool, err error)

	open    bool
	frame   comm.Frame // header and billing
	size    int
	got     int
	buf     *comm.Buffer
	sink    comm.Claim
	claimed bool
	since   time.Time // when the header was seen, of bodies that take time
}

// message takes one that begins or continues a frame and says whether the frame
// is whole.
func (a *inbox) message(kind byte, c *cursor) (done bool, err error) {
	if err := a.check(kind, c); err != nil {
		return false, err
	}
	if kind == msgFrame {
		var hdr [comm.HeaderSize]byte
		if err := a.begin(hdr[:c.fill(hdr[:])]); err != nil {
			return false, err
		}
	} else if !a.open {
		return false, errors.New("a chunk outside any frame")
	}
	for b := c.next(math.MaxInt); b != nil; b = c.next(math.MaxInt) {
		if a.add(b) < len(b) {
			return false, errors.New("bytes after the end of a frame")
		}
	}
	return a.got == a.size, nil
}

// check reads the rest of a message's prefix and, if there is one, its checksum,
// before a byte of the body counts.
func (a *inbox) check(kind byte, c *cursor) error {
	var b [prefixSize - 1 + sumSize]byte
	prefix := b[:prefixSize-1]
	if c.fill(prefix) < len(prefix) {
		return errTruncated
	}
	if (prefix[0] == 1) != a.checked || prefix[0] > 1 || prefix[1] != 0 {
		return fmt.Errorf("a message checked in manner %d, %d", prefix[0], prefix[1])
	}
	if !a.checked {
		return nil
	}
	if c.fill(b[prefixSize-1:]) < sumSize {
		return errTruncated
	}
	sum := crc32.Update(0, castagnoli, []byte{kind})
	for ahead := *c; ; {
		p := ahead.next(math.MaxInt)
		if p == nil {
			break
		}
		sum = crc32.Update(sum, castagnoli, p)
	}
	if want := le.Uint32(b[prefixSize-1:]); sum != want {
		return fmt.Errorf("message checksum %08x, computed %08x", want, sum)
	}
	return nil
}

// begin starts a frame with its header.
func (a *inbox) begin(hdr []byte) error {
	if a.open {
		return errors.New("a frame begins inside another")
	}
	h, billed, size, err := comm.ParseHeader(hdr, a.max)
	if err != nil {
		return err
	}
	a.since = time.Time{}
	if size >= timed {
		a.since = time.Now()
	}
	if a.sink, a.claimed, err = a.claim(&h, size, billed, a.since); err != nil {
		return err
	}
	a.open, a.frame, a.size, a.got = true, comm.Frame{Header: h, Billed: billed}, size, 0
	if a.buf = nil; size > 0 && !a.claimed {
		a.buf = comm.NewBuffer(min(size, firstAlloc))
	}
	return nil
}

// add takes as much of b as belongs to the body.
func (a *inbox) add(b []byte) int {
	b = b[:min(len(b), a.size-a.got)]
	if a.claimed {
		a.sink.Feed(b)
		a.got += len(b)
		return len(b)
	}
	for rest := b; len(rest) > 0; {
		if a.got == len(a.buf.B) {
			bigger := comm.NewBuffer(min(a.size, 2*len(a.buf.B)))
			copy(bigger.B, a.buf.B)
			a.buf.Release()
			a.buf = bigger
		}
		n := copy(a.buf.B[a.got:], rest)
		a.got += n
		rest = rest[n:]
	}
	return len(b)
}

// take gives out a whole frame that no sink has claimed.
func (a *inbox) take() comm.Frame {
	f := comm.NewFrame(a.frame.Header, a.buf)
	f.Billed = a.frame.Billed
	a.open, a.buf = false, nil
	return f
}

// drop forgets a frame that is not whole.
func (a *inbox) drop() {
	if a.open && a.claimed {
		a.sink.End(errTruncated)
	}
	if a.buf != nil {
		a.buf.Release()
	}
	a.open, a.buf = false, nil
}
