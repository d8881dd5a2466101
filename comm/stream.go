package comm

import (
	"context"
	"sync"
	"time"
)

// Filler writes a frame's body straight to where it leaves from.
type Filler interface {
	// Fill writes the next len(dst) bytes of the body. Bodies are cut at
	// multiples of eight bytes.
	Fill(dst []byte)
}

// Sink takes a frame's body straight from where it arrived. Its methods are
// called by whoever receives, one at a time.
type Sink interface {
	// Begin looks at the header and the length of a body before the first byte
	// of it; an error refuses the frame.
	Begin(h *Header, size int) error
	// Take is given the next bytes. They may be cut anywhere and belong to
	// somebody else again when it returns.
	Take(b []byte)
}

// Placer is a Sink that may have bytes put where they are to lie, which spares a copy. Its
// methods are called as Take is, and in turns with it.
type Placer interface {
	Sink
	// Place is where the next bytes are to lie, in order; nil: Take wants them.
	Place() []byte
	// Placed says that the first n bytes of what Place returned have come.
	Placed(n int)
}

// Source has bytes that came in.
type Source interface {
	// Fill puts bytes that have come into dst, none if there are none now.
	Fill(dst []byte) (n int, err error)
}

// Streamer is an Endpoint that moves bodies without frames in between.
type Streamer interface {
	// SendFrom is Send of a body of size bytes that src writes before SendFrom
	// returns. Beyond what Send may wait for it may wait until the peer's
	// process, not its program, has taken what was sent before.
	SendFrom(ctx context.Context, to int, h Header, size int, src Filler) error
	// SendLent is Send of the bytes b as they lie in memory, for as long as l
	// says: l.Wait returns when they were written out, or copied where that is as
	// good. It needs the peer's process for that, not its program. After an error
	// the bytes may still be read, until the link to the peer is gone.
	SendLent(ctx context.Context, to int, h Header, b []byte, l *Loan) error
	// Post announces that the next frame from a rank with a tag that nobody else
	// waits for goes to sink. It never waits. r must not be in use.
	Post(r *Receipt, from int, tag Tag, sink Sink)
	// Await waits, as Recv does, until the sink has the whole frame. After an
	// error r must not be used again.
	Await(ctx context.Context, r *Receipt) (Header, error)
	// Cancel takes a post back. When it returns, the sink is not called any
	// more; r must not be used again.
	Cancel(r *Receipt)
}

// Remote is an Endpoint that knows how far other ranks are.
type Remote interface {
	// RoundTrip is how long the network took, when both linked, for something to another
	// rank and an answer; 0 if it is not known or crosses no network.
	RoundTrip(to int) time.Duration
}

// Streaming returns e itself if it is a Streamer, otherwise a Streamer that
// sends and receives frames through e.
func Streaming(e Endpoint) Streamer {
	if s, ok := e.(Streamer); ok {
		return s
	}
	return framed{e}
}

// framed streams over frames.
type framed struct{ Endpoint }

func (e framed) SendFrom(ctx context.Context, to int, h Header, size int, src Filler) error {
	return e.Send(ctx, to, Filled(h, size, src))
}

func (e framed) SendLent(ctx context.Context, to int, h Header, b []byte, _ *Loan) error {
	src := Copied(b)
	return e.SendFrom(ctx, to, h, len(b), &src)
}

// Copied is a Filler of bytes that are there already.
type Copied []byte

// Fill implements Filler.
func (c *Copied) Fill(dst []byte) { *c = (*c)[copy(dst, *c):] }

// Filled makes a frame whose body src writes.
func Filled(h Header, size int, src Filler) Frame {
	buf := NewBuffer(size)
	if size > 0 {
		src.Fill(buf.B)
	}
	return NewFrame(h, buf)
}

func (framed) Post(r *Receipt, from int, tag Tag, sink Sink) {
	r.from, r.tag, r.sink = from, tag, sink
}

func (e framed) Await(ctx context.Context, r *Receipt) (Header, error) {
	f, err := e.Recv(ctx, r.from, r.tag)
	if err != nil {
		return Header{}, err
	}
	defer f.Release()
	r.taken = f.Header
	if err := r.sink.Begin(&r.taken, len(f.Body)); err != nil {
		return r.taken, err
	}
	r.sink.Take(f.Body)
	return r.taken, nil
}

func (framed) Cancel(*Receipt) {}

// Receipt is a receive that was posted. The zero value is ready for use, and
// again once it was awaited without an error.
type Receipt struct {
	from int
	tag  Tag
	sink Sink // nil: wants a frame
	done chan delivery
	late *time.Timer

	mu    sync.Mutex // held while the sink is called
	over  bool       // the sink may not be called any more
	taken Header     // of the frame that is being fed
	bill  int
	whole bool // the frame was all there before
	since time.Time
}

// Over says whether the wait has ended: Await returns at once.
func (r *Receipt) Over() bool { return len(r.done) > 0 }

type delivery struct {
	f     Frame
	err   error
	since time.Time // when its first bytes were seen; zero: it came at once
}

// feed gives the sink the next bytes unless the wait is over.
func (r *Receipt) feed(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.sink.Take(b)
	}
}

// place has from fill the sink's memory with at most n bytes, unless the wait is over or
// the sink wants to be fed. It returns how many came.
func (r *Receipt) place(from Source, n int) (came int, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.sink.(Placer)
	if r.over || !ok {
		return 0, false, nil
	}
	dst := p.Place()
	if len(dst) == 0 {
		return 0, false, nil
	}
	came, err = from.Fill(dst[:min(n, len(dst))])
	p.Placed(came)
	return came, true, err
}

// cut makes sure that the sink is left alone from now on.
func (r *Receipt) cut() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
}
