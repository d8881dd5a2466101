package grpcnet

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
	"github.com/gradlab/gradlab/internal/patience"
)

func sample(size int) comm.Frame {
	return comm.NewFrame(comm.Header{
		Run: 1, Epoch: 2, Incarnation: 3, From: 4, To: 5, Tag: 6, Kind: comm.Parameters, Code: 7, Flags: 8,
		Shard: 9, Step: 10, Seq: 11, Version: 12, Value: math.Pi,
	}, body(size, 3))
}

// pieces cuts b as flow control might.
func pieces(b []byte, n int) mem.BufferSlice {
	s := mem.BufferSlice{mem.SliceBuffer(nil)}
	for len(b) > 0 {
		k := min(n, len(b))
		s = append(s, mem.SliceBuffer(b[:k]))
		b = b[k:]
	}
	return s
}

// tape is a stream that keeps what is sent.
type tape struct{ sent [][]byte }

func (t *tape) SendMsg(m any) error {
	s, err := rawCodec{}.Marshal(m)
	if err == nil {
		t.sent = append(t.sent, s.Materialize())
		s.Free()
	}
	return err
}

func (t *tape) RecvMsg(any) error { return errors.New("nothing to receive") }

// messages are those that f is sent in.
func messages(f comm.Frame, checked bool) [][]byte {
	var t tape
	_ = writeFrame(&t, f, checked)
	return t.sent
}

// noSinks is the claim of an inbox that nobody waits for.
func noSinks(*comm.Header, int, int, time.Time) (c comm.Claim, ok bool, err error) {
	return c, false, nil
}

func newInbox(limit int, checked bool) *lane.Inbox {
	return &lane.Inbox{Max: limit, Checked: checked, Claim: noSinks}
}

// read puts messages together, each in pieces of n bytes; whole says whether they
// were a frame, no more and no less.
func read(a *lane.Inbox, msgs [][]byte, n int) (f comm.Frame, whole bool, err error) {
	defer a.Drop()
	for i, m := range msgs {
		if len(m) == 0 {
			return f, false, lane.ErrTruncated
		}
		if m[0] != msgFrame && m[0] != msgChunk {
			return f, false, errors.New("not of a frame")
		}
		c := cursor{s: pieces(m[1:], n)}
		done, err := message(a, m[0], &c)
		if err != nil {
			return f, false, err
		}
		if done {
			return a.Take(), i == len(msgs)-1, nil
		}
	}
	return f, false, lane.ErrTruncated
}

func equal(f, g comm.Frame) bool {
	return f.Header == g.Header && f.Billed == g.Billed && bytes.Equal(f.Body, g.Body)
}

func TestFrameRoundTrip(t *testing.T) {
	for _, checked := range []bool{false, true} {
		for _, size := range []int{0, 1, 7, copyLimit, copyLimit + 1, 5000, chunk, chunk + 1, chunk + copyLimit + 1, 2*chunk + 7} {
			f, want := sample(size), sample(size)
			msgs := messages(f, checked)
			if n := max(1, (size+chunk-1)/chunk); len(msgs) != n {
				t.Errorf("%d bytes in %d messages, want %d", size, len(msgs), n)
			}
			g, whole, err := read(newInbox(size, checked), msgs, 1<<14)
			if err != nil || !whole || !equal(g, want) {
				t.Fatalf("%d bytes: got %+v, %v", size, g.Header, err)
			}
		}
	}
}

// Trap: floats straddle frames. A body begins where the header of gRPC and ours
// end, at a multiple of a float in every HTTP/2 frame of 16 KB.
func TestTrapFloatsLieWholeInFrames(t *testing.T) {
	const grpcHead = 5
	for _, checked := range []bool{false, true} {
		for i, m := range messages(sample(2*chunk), checked) {
			size := chunk
			if head := grpcHead + len(m) - size; head%4 != 0 {
				t.Errorf("checked %v, message %d: %d bytes before the body", checked, i, head)
			}
		}
	}
}

// However the bytes are cut, the frame is the same.
func TestFrameCutAnywhere(t *testing.T) {
	want := sample(2000)
	for _, checked := range []bool{false, true} {
		msgs := messages(sample(2000), checked)
		for n := 1; n < 2200; n += 1 + n/7 {
			g, whole, err := read(newInbox(2000, checked), msgs, n)
			if err != nil || !whole || !equal(g, want) {
				t.Fatalf("in pieces of %d: %v", n, err)
			}
		}
	}
}

// F14: every truncation is refused, and every flipped bit that the road's
// checksums cover: headers everywhere, bodies between hosts.
func TestF14DamagedFrames(t *testing.T) {
	for _, checked := range []bool{false, true} {
		wire := messages(sample(50), checked)[0]
		for n := range wire {
			if _, _, err := read(newInbox(1000, checked), [][]byte{wire[:n]}, 20); err == nil {
				t.Errorf("%d of %d bytes were accepted", n, len(wire))
			}
		}
		covered := prefixSize + comm.HeaderSize
		if checked {
			covered = len(wire)
		}
		for i := range 8 * covered {
			b := bytes.Clone(wire)
			b[i/8] ^= 1 << (i % 8)
			if _, _, err := read(newInbox(1000, checked), [][]byte{b}, 20); err == nil {
				t.Errorf("checked %v: flipped bit %d was accepted", checked, i)
			}
		}
		if _, _, err := read(newInbox(1000, checked), [][]byte{append(bytes.Clone(wire), 0)}, 20); err == nil {
			t.Error("a byte too many was accepted")
		}
		if _, _, err := read(newInbox(1000, !checked), [][]byte{wire}, 20); err == nil {
			t.Errorf("a frame checked %v was accepted where the other manner was agreed", checked)
		}
		if _, _, err := read(newInbox(1000, checked), [][]byte{wire[:len(wire)-9], wire}, 20); err == nil {
			t.Error("a frame inside another was accepted")
		}
	}
}

// sumTrap sees whether a byte reached a sink.
type sumTrap struct{ got int }

func (*sumTrap) Begin(*comm.Header, int) error { return nil }
func (s *sumTrap) Take(b []byte)               { s.got += len(b) }

// A sink is not fed from a message whose checksum is wrong: a sum cannot be taken
// back.
func TestF14NothingDamagedIsSummed(t *testing.T) {
	box := comm.NewMailbox(0, 0)
	var s sumTrap
	var r comm.Receipt
	box.Post(&r, comm.AnyRank, comm.AnyTag, &s)
	a := newInbox(1<<20, true)
	a.Claim = func(h *comm.Header, size, billed int, since time.Time) (comm.Claim, bool, error) {
		c, ok := box.Claim(*h, size, billed, since)
		return c, ok, nil
	}
	wire := messages(sample(5000), true)[0]
	wire[3000] ^= 4
	if _, _, err := read(a, [][]byte{wire}, 100); err == nil || s.got != 0 {
		t.Errorf("%d bytes were fed, %v", s.got, err)
	}
}

// F15: a header alone makes nobody allocate what it claims.
func TestF15HugeClaims(t *testing.T) {
	for _, claim := range []int{1001, math.MaxInt32, math.MaxInt} {
		wire := comm.AppendHeader([]byte{msgFrame, 0, 0}, &comm.Header{}, 0, claim)
		if _, _, err := read(newInbox(1000, false), [][]byte{wire}, 50); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("claim of %d: %v", claim, err)
		}
	}
}

// A body beyond the first allocation grows without a change.
func TestFrameGrows(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("moves 200 MB")
	}
	buf := comm.NewBuffer(lane.FirstAlloc + 5<<20)
	for i := 0; i < len(buf.B); i += 4099 {
		buf.B[i] = byte(i / 4099)
	}
	msgs := messages(comm.NewFrame(comm.Header{}, buf.Retain()), false)
	g, whole, err := read(newInbox(len(buf.B), false), msgs, 1<<20)
	if err != nil || !whole || !bytes.Equal(buf.B, g.Body) {
		t.Fatal(whole, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(messages(sample(0), false)[0], false, uint16(1))
	f.Add(messages(sample(33), true)[0], true, uint16(100))
	f.Add(messages(sample(2000), false)[0][:700], false, uint16(300))
	f.Add([]byte{msgFrame, 1, 0, 2}, true, uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, checked bool, cut uint16) {
		const limit = 1 << 16
		g, whole, err := read(newInbox(limit, checked), [][]byte{b}, 1<<20)
		h, again, e := read(newInbox(limit, checked), [][]byte{b}, int(cut)+1)
		if (err == nil) != (e == nil) || whole != again || err == nil && !equal(g, h) {
			t.Fatalf("at once %v %v, in pieces %v %v", whole, err, again, e)
		}
		if err == nil {
			wire := messages(comm.Frame{Header: g.Header, Body: g.Body, Billed: g.Billed}, checked)
			if !bytes.Equal(wire[0], b) {
				t.Fatalf("%x became %x", b, wire[0])
			}
		}
	})
}
