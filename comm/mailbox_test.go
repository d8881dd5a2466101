package comm

import (
	"context"
	"errors"
	"testing"
	"time"
)

// gate is a sink that waits in the middle of a body.
type gate struct {
	in, out chan struct{}
	got     int
}

func (*gate) Begin(*Header, int) error { return nil }
func (g *gate) Take(b []byte) {
	g.got += len(b)
	g.in <- struct{}{}
	<-g.out
}

func newGate() *gate { return &gate{in: make(chan struct{}, 9), out: make(chan struct{}, 9)} }

// A frame that was whole before its sender's end counts, also when the news
// comes while a sink is being fed.
func TestEndWhileFeeding(t *testing.T) {
	m := NewMailbox(0, time.Minute)
	g := newGate()
	m.Put(NewFrame(Header{From: 1}, NewBuffer(10)))
	var r Receipt
	go m.Post(&r, 1, AnyTag, g)
	<-g.in
	m.Gone(&PeerError{Rank: 1, Cause: "has finished"}, true)
	g.out <- struct{}{}
	if _, err := m.Await(context.Background(), &r); err != nil || g.got != 10 {
		t.Errorf("%d bytes, %v", g.got, err)
	}
}

// A frame on its way when its sender dies is lost, and its sink left alone.
func TestDeathWhileFeeding(t *testing.T) {
	for name, end := range map[string]func(*Mailbox, *Receipt){
		"death":  func(m *Mailbox, _ *Receipt) { m.Gone(&PeerError{Rank: 1, Cause: "killed"}, false) },
		"close":  func(m *Mailbox, _ *Receipt) { m.Close(errors.New("closed")) },
		"cancel": func(m *Mailbox, r *Receipt) { m.Cancel(r) },
	} {
		m := NewMailbox(0, time.Minute)
		g := newGate()
		g.out <- struct{}{}
		var r Receipt
		m.Post(&r, AnyRank, 7, g)
		c, ok := m.Claim(Header{From: 1, Tag: 7}, 20, 20, time.Time{})
		if !ok {
			t.Fatalf("%s: nobody waits", name)
		}
		c.Feed(make([]byte, 10))
		end(m, &r)
		c.Feed(make([]byte, 10))
		c.End(nil)
		if g.got != 10 {
			t.Errorf("%s: %d bytes", name, g.got)
		}
		if name != "cancel" {
			if _, err := m.Await(context.Background(), &r); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

// Posts are served in order, a receive among them.
func TestPostsInOrder(t *testing.T) {
	m := NewMailbox(0, time.Minute)
	var r [2]Receipt
	var g [2]*gate
	for i := range r {
		g[i] = newGate()
		g[i].out <- struct{}{}
		m.Post(&r[i], 1, 5, g[i])
	}
	if _, ok := m.Claim(Header{From: 1, Tag: 6}, 0, 0, time.Time{}); ok {
		t.Error("claimed by who waits for another tag")
	}
	for i := range r {
		m.Put(NewFrame(Header{From: 1, Tag: 5, Seq: uint64(i)}, NewBuffer(i+1)))
		f, err := m.Await(context.Background(), &r[i])
		if err != nil || f.Header.Seq != uint64(i) || g[i].got != i+1 {
			t.Errorf("post %d: frame %d, %d bytes, %v", i, f.Header.Seq, g[i].got, err)
		}
	}
	m.Put(NewFrame(Header{From: 1, Tag: 5}, nil))
	if f, err := m.Recv(context.Background(), 1, 5); err != nil || f.Body != nil {
		t.Error(err)
	}
}

// Who only answers others waits as long as nobody asks.
func TestIdleHasNoDeadline(t *testing.T) {
	m := NewMailbox(0, 10*time.Millisecond)
	if _, err := m.Recv(t.Context(), AnyRank, AnyTag); !errors.Is(err, ErrDeadline) {
		t.Error(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { m.Put(Frame{Header: Header{From: 1}}) })
	if _, err := m.Recv(Idle(t.Context()), AnyRank, AnyTag); err != nil {
		t.Error(err)
	}
}

// A wait fetches before it sleeps, and says that it sleeps when nothing came.
func TestWaitsFetch(t *testing.T) {
	m := NewMailbox(0, time.Minute)
	f := &postman{box: m}
	m.FetchBy(f)
	for _, patience := range []bool{false, true} {
		f.waits = patience
		got, err := m.Recv(t.Context(), 1, 7)
		if err != nil || got.Header.From != 1 || f.slept > 0 {
			t.Fatalf("%v %v, %d slept", got.Header, err, f.slept)
		}
	}
	f.box = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Recv(ctx, 1, 7); !errors.Is(err, context.Canceled) || f.slept != 1 || f.asleep != 0 {
		t.Errorf("%v, %d slept, %d still", err, f.slept, f.asleep)
	}
}

// postman puts a frame into a box when somebody looks.
type postman struct {
	box           *Mailbox // nil: there is nothing
	waits         bool     // it comes within a moment
	slept, asleep int
}

func (p *postman) Fetch(w *Receipt, from int, wait bool) {
	if p.box != nil && wait == p.waits && !w.Over() {
		p.box.Put(Frame{Header: Header{From: int32(from), Tag: 7}})
	}
}

func (p *postman) Sleeps(more int) {
	p.asleep += more
	p.slept += max(0, more)
}
