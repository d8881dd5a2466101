// Package comm defines what ranks say to each other and what they run on: the
// Frame, the Endpoint it travels through, the Clock, and the Net that runs one
// program per rank as goroutines, processes or coroutines on a virtual clock.
package comm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind says what a frame carries; traffic is accounted by kind.
type Kind uint8

const (
	Gradient   Kind = iota // encoded gradients, worker to server or peer to peer
	Parameters             // encoded parameters or their differences
	Control                // joins, byes, requests: billed at 0 bytes of payload
	Report                 // metrics, snapshots and checkpoints to the observer: never billed
	numKinds
)

// NumKinds is the number of kinds.
const NumKinds = int(numKinds)

func (k Kind) String() string {
	if k < numKinds {
		return [...]string{"gradient", "parameters", "control", "report"}[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Tag separates conversations between the same two ranks. AnyTag matches all.
type Tag uint32

// AnyTag and AnyRank match every tag and every rank in Recv, but for private tags.
const (
	AnyTag  Tag = 1<<32 - 1
	AnyRank     = -1
)

// Private is the tag on a line of its own: AnyTag does not match it. It is for an
// activity beside one that takes frames of any tag.
func (t Tag) Private() Tag { return t&(1<<30-1) | 1<<31 }

func (t Tag) private() bool { return t>>30 == 2 }

// Flags are bits of a frame that collectives OR along their way. What they mean is for those who
// send frames to say.
type Flags uint16

// Header travels in front of every body. (From, Incarnation, Shard, Seq) is
// unique in a run: a gradient is applied at most once.
type Header struct {
	Run         uint64 // hash of the run's identity
	Epoch       uint32 // membership generation
	Incarnation uint32 // of the sender: rises when a rank restarts
	From, To    int32
	Tag         Tag
	Kind        Kind
	Code        uint8 // what it means within its tag; the program's own
	Flags       Flags
	Shard       uint16
	Step        uint64 // the sender's step
	Seq         uint64 // the sender's count for this shard
	Version     uint64 // version of the parameters the body was computed from, or holds
	Value       float64
}

// Frame is a message. Whoever holds a frame may read its body; nobody may
// write to it once it was sent. Send passes the frame on to the receiver, who
// calls Release when it is done, or releases it itself where it fails; a body
// shared by several frames is retained once for each.
type Frame struct {
	Header Header
	Body   []byte
	// Billed is the size the frame is accounted and simulated at: len(Body),
	// or the codec's exact size in a run without arithmetic.
	Billed int
	buf    *Buffer
}

// NewFrame makes a frame over buf, taking over one reference to it.
func NewFrame(h Header, buf *Buffer) Frame {
	f := Frame{Header: h, buf: buf}
	if buf != nil {
		f.Body, f.Billed = buf.B, len(buf.B)
	}
	if h.Kind == Control || h.Kind == Report {
		f.Billed = 0
	}
	return f
}

// Buffer returns the counted buffer under the body, nil if it has none.
func (f Frame) Buffer() *Buffer { return f.buf }

// Share is the same frame for one more holder, who releases it, too.
func (f Frame) Share() Frame {
	if f.buf != nil {
		f.buf.Retain()
	}
	return f
}

// Release gives the body back. The frame must not be used afterwards.
func (f *Frame) Release() {
	if f.buf != nil {
		f.buf.Release()
	}
	f.buf, f.Body = nil, nil
}

// Endpoint is a rank's mouth and ears. Frames from one rank to another arrive
// in the order sent. Send never waits for the receiver's program, but may wait
// for a bounded queue. Every wait ends: by a frame, by ctx, by the net's
// deadline (ErrDeadline; Idle activities have none), or because a peer is gone
// (*PeerError).
type Endpoint interface {
	Rank() int
	Size() int // ranks 0 … Size−1, the observer included
	// Send takes the frame over, also when it fails: it has then released the body,
	// and the caller, who must not use the frame again, has nothing to give back.
	// Who wants to send it once more passes on f.Share().
	Send(ctx context.Context, to int, f Frame) error
	// Recv waits for the next frame from the rank (or AnyRank) with the tag (or
	// AnyTag). When a peer that could still send has died, it returns *PeerError
	// once per dead peer with AnyRank, to one of the rank's activities, and always
	// with that rank (after all frames it had sent).
	Recv(ctx context.Context, from int, tag Tag) (Frame, error)
}

// Work is a computation with points of interest in it. On a real clock, Run
// calls at(i) as it passes mark i and Then(i) happens at once, on the same
// goroutine. On a virtual clock Run is computed on a spare core, at is a no-op,
// and the rank's program sees Then(i) when Cost[i] of virtual time has passed
// since the mark before. Marks are numbered 0 … len(Cost)−1 and must be passed
// in order; the last one is the end of the work.
//
// Work with a Break is abandoned as soon as a frame with that tag is in the
// rank's inbox, where it stays: Abort is called, from any goroutine, to make Run
// return soon, and Do returns ErrBroken once it has.
type Work struct {
	Run  func(at func(mark int) error) error
	Cost []time.Duration
	Then func(mark int) error

	Break Tag    // 0: nothing ends the work early
	Abort func() // may be nil
}

// ErrBroken is returned by Do for work that a frame ended early.
var ErrBroken = errors.New("the work was broken off")

// Clock tells the net's time and bills computing.
type Clock interface {
	Now() time.Duration
	// Do performs w.
	Do(ctx context.Context, w Work) error
	// Sleep lets d pass on the net's clock.
	Sleep(ctx context.Context, d time.Duration) error
	// Virtual says whether time is that of a device of its own: computing then takes
	// what it is said to cost, on a virtual clock or an emulated device, and whoever
	// computes outside of Do must Sleep for it.
	Virtual() bool
}

// Host is what a program runs on.
type Host interface {
	Endpoint
	Clock
	// Go starts a further activity of the same rank. Activities share the
	// rank's inbox and meet by frames to their own rank, which cost no network
	// time. The rank ends when all its activities have.
	Go(name string, p Program)
	Traffic() *Traffic
}

// Program is what a rank does. It must return soon after ctx ends.
type Program func(ctx context.Context, h Host) error

// Net runs programs, one per rank, and returns the first error that is not a
// consequence of another.
type Net interface {
	Run(ctx context.Context, programs []Program) error
}

// ErrDeadline is returned by waits that outlast the net's deadline.
var ErrDeadline = errors.New("deadline passed")

// PeerError says that a rank is gone: killed, paused for longer than its
// lease, cut off, or ended with an error of its own.
type PeerError struct {
	Rank  int
	Cause string
	// Lost: a process died, was stopped or was cut off, this rank's or one that it could
	// not do without. Another try may go well.
	Lost bool
	// Killed: it died as its virtual cluster had it; another try goes the same way.
	Killed bool
	// Ended: its programs have come to their end. That is no death.
	Ended bool
	// Incarnation is that of the rank which is gone: another one may have come since.
	Incarnation uint32
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d is gone: %s", e.Rank, e.Cause) }
