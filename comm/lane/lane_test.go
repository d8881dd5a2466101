package lane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// tape is a road on which lie bytes that came in.
type tape struct {
	Road // of which nothing but the methods below is called
	b    []byte
	last error
}

func (t *tape) Look() ([]byte, error) {
	if len(t.b) == 0 {
		return nil, t.last
	}
	return t.b[:min(len(t.b), 1000)], nil
}
func (t *tape) Consume(n int)                  { t.b = t.b[n:] }
func (t *tape) Wait()                          {}
func (t *tape) Again(int) bool                 { return false }
func (t *tape) Leave()                         {}
func (t *tape) Finish()                        {}
func (t *tape) try(*record) (begun, done bool) { return false, false }
func (t *tape) count(sent, read int)           {}
func (t *tape) alone() bool                    { return false }
func (t *tape) close()                         {}
func (t *tape) write(rec *record) error {
	for _, part := range rec.parts {
		t.b = append(t.b, part...)
	}
	return nil
}
func (t *tape) end() {}

// owner is a link that keeps what comes.
type owner struct {
	frames []comm.Frame
	words  []string
	lost   string
	sent   int
	stop   chan struct{}
}

func (o *owner) Expects(h *comm.Header) error {
	if h.From != 1 {
		return errors.New("of a stranger")
	}
	return nil
}

func (o *owner) Claim(h *comm.Header, _, _ int, _ time.Time) (c comm.Claim, ok bool, err error) {
	return c, false, o.Expects(h)
}

func (o *owner) Deliver(in *Inbox) error {
	o.frames = append(o.frames, in.Take())
	return nil
}

func (o *owner) Notice(kind byte, b []byte) error {
	if kind == '?' {
		return errors.New("of an unknown kind")
	}
	o.words = append(o.words, string(kind)+string(b))
	return nil
}
func (o *owner) Sent(_ comm.Kind, body int) { o.sent += body }
func (o *owner) Lost(cause string)          { o.lost = cause }
func (o *owner) Stopped() <-chan struct{}   { return o.stop }
func (o *owner) Ended() <-chan struct{}     { return o.stop }
func (o *owner) Sleeps(int)                 {}
func (o *owner) Asleep() int                { return 0 }

var limits = Limits{Frame: 1 << 30, Message: 100, Queue: 1 << 20, Deadline: time.Minute, Lease: time.Minute}

// written is what a lane writes of these frames and words.
func written(checked bool, frames []comm.Frame, words ...string) []byte {
	road := &tape{}
	n := New(&owner{}, road, checked, limits)
	for _, f := range frames {
		if err := n.Push(context.Background(), f, 0, nil); err != nil {
			panic(err)
		}
	}
	for _, w := range words {
		n.Tell([]byte(w))
	}
	<-n.turn
	n.drain(false)
	return road.b
}

// heard is what a lane makes of bytes.
func heard(checked bool, b []byte) (*owner, *Lane) {
	o := &owner{}
	n := New(o, &tape{b: b, last: io.EOF}, checked, limits)
	for n.read(nil) == nil {
	}
	return o, n
}

func frame(from, size int) comm.Frame {
	f := comm.NewFrame(comm.Header{From: int32(from), Tag: 7, Step: uint64(size)}, comm.NewBuffer(size))
	for i := range f.Body {
		f.Body[i] = byte(i * 7)
	}
	f.Billed = size
	return f
}

// What is written is heard, with checksums and without.
func TestRecords(t *testing.T) {
	for _, checked := range []bool{false, true} {
		sizes := []int{0, 1, 7, 8, 1000, directly, 70_001}
		var frames []comm.Frame
		for _, size := range sizes {
			frames = append(frames, frame(1, size))
		}
		o, _ := heard(checked, written(checked, frames, "Bye", "E"))
		if len(o.frames) != len(sizes) || fmt.Sprint(o.words) != "[Bye E]" || o.lost != "" {
			t.Fatalf("checked %v: %d frames, words %q, lost %q", checked, len(o.frames), o.words, o.lost)
		}
		for i, f := range o.frames {
			if want := frame(1, sizes[i]); f.Header != want.Header || f.Billed != want.Billed || string(f.Body) != string(want.Body) {
				t.Errorf("checked %v: %d bytes are %d, %+v", checked, sizes[i], len(f.Body), f.Header)
			}
		}
	}
}

// A frame that was damaged on its way is noticed, wherever it was.
func TestDamageIsNoticed(t *testing.T) {
	whole := written(true, []comm.Frame{frame(1, 20)})
	for at := range whole {
		b := append([]byte(nil), whole...)
		b[at] ^= 4
		if o, _ := heard(true, b); len(o.frames) > 0 && at < frameHead+20 {
			t.Errorf("a frame whose byte %d was damaged was delivered", at)
		}
	}
}

// F15: a header alone makes nobody allocate what it claims.
func TestF15HugeClaims(t *testing.T) {
	a := &Inbox{Max: 1 << 30, Claim: (&owner{}).Claim}
	if err := a.Begin(comm.AppendHeader(nil, &comm.Header{From: 1}, 0, 1<<30)); err != nil || len(a.buf.B) > FirstAlloc {
		t.Errorf("%v, %d bytes", err, len(a.buf.B))
	}
	a.Drop()
}

// Whatever the other process writes: records are understood or refused, and what a frame's
// header claims takes no memory before its bytes come.
func FuzzRecords(f *testing.F) {
	f.Add(false, written(false, []comm.Frame{frame(1, 10)}))
	f.Add(true, written(true, []comm.Frame{frame(1, 10), frame(1, 0)}, "B1234"))
	f.Add(false, written(false, []comm.Frame{frame(0, 10)}))
	f.Add(false, written(false, nil, "E", "X12345678", "?"))
	f.Add(true, []byte{Frame, 0, 0, 0, comm.HeaderSize, 0, 0, 0})
	f.Fuzz(func(t *testing.T, checked bool, b []byte) {
		_, n := heard(checked, b)
		if n.in.buf != nil && len(n.in.buf.B) > FirstAlloc {
			t.Errorf("%d bytes for a claim", len(n.in.buf.B))
		}
	})
}
