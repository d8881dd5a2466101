package lane

import (
	"errors"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// FirstAlloc is the most a header alone makes us allocate; a longer body grows
// as its bytes come in.
const FirstAlloc = 64 << 20

// timed is the least size of a body of which it is noted when it began to come:
// shorter ones are there at once.
const timed = 32 << 10

// ErrTruncated is the end of a frame in its middle.
var ErrTruncated = errors.New("frame is cut short")

// Inbox puts frames together, one after the other: into the sink that waits for one, or else
// into a buffer.
type Inbox struct {
	Max     int  // bytes of body accepted
	Checked bool // frames carry checksums
	// Claim looks for a sink; an error says that the frame has no business here.
	Claim func(h *comm.Header, size, billed int, since time.Time) (c comm.Claim, ok bool, err error)

	open    bool
	frame   comm.Frame // header and billing
	size    int
	got     int
	buf     *comm.Buffer
	sink    comm.Claim
	claimed bool
	since   time.Time // when the header was seen, of bodies that take time
}

// Begin starts a frame with its header.
func (a *Inbox) Begin(hdr []byte) error {
	if a.open {
		return errors.New("a frame begins inside another")
	}
	h, billed, size, err := comm.ParseHeader(hdr, a.Max)
	if err != nil {
		return err
	}
	a.since = time.Time{}
	if size >= timed {
		a.since = time.Now()
	}
	if a.sink, a.claimed, err = a.Claim(&h, size, billed, a.since); err != nil {
		return err
	}
	a.open, a.frame, a.size, a.got = true, comm.Frame{Header: h, Billed: billed}, size, 0
	if a.buf = nil; size > 0 && !a.claimed {
		a.buf = comm.NewBuffer(min(size, FirstAlloc))
	}
	return nil
}

// Add takes as much of b as belongs to the body.
func (a *Inbox) Add(b []byte) int {
	b = b[:min(len(b), a.size-a.got)]
	if a.claimed {
		a.sink.Feed(b)
		a.got += len(b)
		return len(b)
	}
	for rest := b; len(rest) > 0; {
		a.grow()
		n := copy(a.buf.B[a.got:], rest)
		a.got += n
		rest = rest[n:]
	}
	return len(b)
}

// Open says that a frame has begun and was not given out.
func (a *Inbox) Open() bool { return a.open }

// Whole says that all of the frame's body is there.
func (a *Inbox) Whole() bool { return a.got == a.size }

// Frame is the header of the frame under way, and the length of its body.
func (a *Inbox) Frame() (h *comm.Header, size int) { return &a.frame.Header, a.size }

// Since is when the header was seen, of a body that took time.
func (a *Inbox) Since() time.Time { return a.since }

// Ended tells the sink that claimed a whole frame so. Without a sink it is for Take.
func (a *Inbox) Ended() (claimed bool) {
	if !a.claimed {
		return false
	}
	a.open = false
	a.sink.End(nil)
	return true
}

// Fill has a source put the next bytes of a body where they are to lie, and says how many
// came. If not ok they are for Add.
func (a *Inbox) Fill(from comm.Source) (n int, ok bool, err error) {
	switch {
	case a.got == a.size:
		return 0, false, nil
	case a.claimed:
		n, ok, err = a.sink.Place(from, a.size-a.got)
	default:
		a.grow()
		ok = true
		n, err = from.Fill(a.buf.B[a.got:])
	}
	a.got += n
	return n, ok, err
}

// Left is how much of a body is to come.
func (a *Inbox) Left() int { return a.size - a.got }

// grow makes room for at least one byte more of a body.
func (a *Inbox) grow() {
	if a.got < len(a.buf.B) {
		return
	}
	bigger := comm.NewBuffer(min(a.size, 2*len(a.buf.B)))
	copy(bigger.B, a.buf.B)
	a.buf.Release()
	a.buf = bigger
}

// Take gives out a whole frame that no sink has claimed.
func (a *Inbox) Take() comm.Frame {
	f := comm.NewFrame(a.frame.Header, a.buf)
	f.Billed = a.frame.Billed
	a.open, a.buf = false, nil
	return f
}

// Drop forgets a frame that is not whole.
func (a *Inbox) Drop() {
	if a.open && a.claimed {
		a.sink.End(ErrTruncated)
	}
	if a.buf != nil {
		a.buf.Release()
	}
	a.open, a.buf = false, nil
}
