package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

func idle(context.Context, comm.Host) error { return nil }

// F18: both sides are told the same difference, soon.
func TestF18Mismatch(t *testing.T) {
	t.Parallel()
	start := time.Now()
	errs := together(context.Background(), all(3, idle), split(3, 1), func(i int, c *Config) {
		if i == 1 {
			c.Identity = []Field{{Name: "model", Value: "resnet"}, {Name: "codec", Value: "topk"}}
			c.Run = 43
		}
		if i == 2 {
			c.Listen = "127.0.0.1:0"
		}
	})
	if d := time.Since(start); d > patience.Stretch(3*time.Second) {
		t.Errorf("took %v", d)
	}
	want := []Difference{
		{Name: "run", Coordinator: "000000000000002a", Joiner: "000000000000002b"},
		{Name: "model", Coordinator: "mlp", Joiner: "resnet"}, {Name: "seed", Coordinator: "1", Joiner: "(absent)"}, {Name: "codec", Coordinator: "(absent)", Joiner: "topk"},
	}
	for i := range 2 {
		var m *MismatchError
		if !errors.As(errs[i], &m) || !slices.Equal(m.Fields, want) || !slices.Equal(m.Ranks, []int{1}) {
			t.Errorf("process %d: %v", i, errs[i])
		}
	}
	if errs[2] == nil || !strings.Contains(errs[2].Error(), "model: mlp") {
		t.Errorf("the bystander was told %v", errs[2])
	}
}

func refusal(t *testing.T, err error, want string) {
	t.Helper()
	var r *RefusedError
	if !errors.As(err, &r) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a refusal with %q", err, want)
	}
}

// F19: without the token there is no entry, and nobody else is harmed.
func TestF19WrongToken(t *testing.T) {
	t.Parallel()
	errs := together(context.Background(), all(2, func(ctx context.Context, h comm.Host) error { return h.Sleep(ctx, 300*time.Millisecond) }), [][]int{{0}, {1}, {1}}, func(i int, c *Config) {
		if i == 1 {
			c.Token = otherToken
		}
	})
	refusal(t, errs[1], "wrong token")
	if errs[0] != nil || errs[2] != nil {
		t.Error(errs[0], errs[2])
	}
}

func TestDuplicateRank(t *testing.T) {
	t.Parallel()
	ps := all(3, func(ctx context.Context, h comm.Host) error { return h.Sleep(ctx, 300*time.Millisecond) })
	errs := together(context.Background(), ps, [][]int{{0}, {0}, {1, 2}}, func(i int, c *Config) {})
	refusal(t, errs[1], "rank 0 has joined already")
	if errs[0] != nil || errs[2] != nil {
		t.Error(errs[0], errs[2])
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	c := quick(3, 0)
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	v := newRendezvous(&c, "127.0.0.1:1")
	for _, q := range []struct {
		ranks []int
		want  string
	}{
		{nil, "no rank"}, {[]int{3}, "not in 0 … 2"}, {[]int{-1}, "not in 0"}, {[]int{1, 1}, "twice"}, {[]int{0}, "already"},
	} {
		m, reply := v.admit(&joinRequest{Run: c.Run, World: 3, Identity: c.Identity, Ranks: q.ranks})
		if m != nil || !strings.Contains(reply.Refused, q.want) {
			t.Errorf("%v: %+v", q.ranks, reply)
		}
	}
	// One who left may come again, under another address.
	q := &joinRequest{Run: c.Run, World: 3, Identity: c.Identity, Ranks: []int{1}}
	m, _ := v.admit(q)
	v.leave(m)
	if m, reply := v.admit(q); m == nil {
		t.Error(reply.Refused)
	}
}

func TestProtocolVersion(t *testing.T) {
	t.Parallel()
	e := protocolMismatch([]int{1}, 1, 2)
	if !strings.Contains(e.Error(), "protocol version: 1 at the coordinator, 2 at the joining process") {
		t.Error(e)
	}
	// A joiner of another version, played by hand.
	coordinator := make(chan string, 1)
	cfg := quick(2, 0)
	cfg.JoinTimeout = patience.Stretch(3 * time.Second)
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	go func() { coordinator <- n.Run(context.Background(), all(1, idle)).Error() }()
	r, stop := stranger(t, n.Addr())
	defer stop()
	d, err := r.dial(context.Background(), n.Addr(), &joinDesc)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var c challenge
	if err := recvJSON(d.stream, &c); err != nil || c.Protocol != protocol {
		t.Fatal(c, err)
	}
	if err := sendJSON(d.stream, sealed{Protocol: 99}); err != nil {
		t.Fatal(err)
	}
	if err := recvJSON(d.stream, &sealed{}); err == nil || !strings.Contains(err.Error(), "99 at the joining") {
		t.Error(err)
	}
	if s := <-coordinator; !strings.Contains(s, "protocol version") || !strings.Contains(s, "rank 1 did not join") {
		t.Error(s)
	}
}

// stranger is a process that has a dialer, and nothing else.
func stranger(t *testing.T, coordinator string) (*run, func()) {
	t.Helper()
	c := quick(2, 1)
	c.Coordinator = coordinator
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{cfg: &c, wire: new(comm.Traffic), ctx: ctx, cancel: cancel, addr: "127.0.0.1:1"}
	return r, func() { cancel(nil) }
}

func TestMissingRanks(t *testing.T) {
	t.Parallel()
	start, limit := time.Now(), patience.Stretch(time.Second)
	want := fmt.Sprintf("ranks 1, 3 did not join within %v (ranks 0, 2 did)", limit)
	errs := together(context.Background(), all(4, idle), [][]int{{0}, {2}}, func(_ int, c *Config) { c.JoinTimeout = limit })
	for _, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	if d := time.Since(start); d > limit+patience.Stretch(20*time.Second) {
		t.Errorf("took %v", d)
	}
}

func TestNoCoordinator(t *testing.T) {
	t.Parallel()
	free, err := New(quick(1, 0)) // an address where nobody listens any more
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	c := quick(2, 1)
	c.Coordinator, c.JoinTimeout, c.ConnectTimeout = free.Addr(), 200*time.Millisecond, 200*time.Millisecond
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = n.Run(context.Background(), all(1, idle))
	if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), free.Addr()) {
		t.Error(err)
	}
	var missing *MissingError // which may come: its machine is not there yet, perhaps
	if !errors.As(err, &missing) || missing.Refused || !slices.Equal(missing.Ranks, []int{0}) {
		t.Errorf("%#v, want rank 0 missing", err)
	}
}

// A coordinator that dies while ranks wait for others is missing too: they are to be
// started again with it.
func TestCoordinatorDiesEarly(t *testing.T) {
	t.Parallel()
	lead, err := New(quick(3, 0))
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { _ = lead.Run(ctx, all(1, idle)) })
	defer front.Close() // not sooner, or another test could listen at the same port
	wg.Go(func() {      // its machine, which is gone soon after the first call
		a, err := front.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { // nobody else gets through to it
			for {
				late, err := front.Accept()
				if err != nil {
					return
				}
				late.Close()
			}
		})
		defer a.Close()
		b, err := net.Dial("tcp", lead.Addr())
		if err != nil {
			return
		}
		defer b.Close()
		wg.Go(func() { _, _ = io.Copy(a, b) })
		wg.Go(func() { _, _ = io.Copy(b, a) })
		time.Sleep(300 * time.Millisecond) // were it sooner gone, the call would not have come: the answer is the same
	})
	c := quick(3, 1)
	c.Coordinator = front.Addr().String()
	c.JoinTimeout, c.ConnectTimeout = time.Second, time.Second // for a call that has not come through
	joiner, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var missing *MissingError
	if err := joiner.Run(ctx, all(1, idle)); !errors.As(err, &missing) || missing.Refused {
		t.Errorf("%v, want rank 0 missing", err)
	}
}

// A joiner may be started before the coordinator.
func TestJoinerComesFirst(t *testing.T) {
	t.Parallel()
	free, err := New(quick(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	done := make(chan error, 1)
	go func() {
		c := quick(2, 1)
		c.Coordinator = free.Addr()
		n, err := New(c)
		if err == nil {
			err = n.Run(context.Background(), all(1, idle))
		}
		done <- err
	}()
	time.Sleep(200 * time.Millisecond)
	c := quick(2, 0)
	c.Listen = free.Addr()
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(context.Background(), all(1, idle)); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCancelWhileJoining(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	start := time.Now()
	for i, err := range together(ctx, all(3, idle), [][]int{{0}, {1}}, nil) {
		if !errors.Is(err, context.Canceled) {
			var r *RefusedError // the coordinator may have said so first
			if !errors.As(err, &r) || !strings.Contains(err.Error(), "canceled") {
				t.Errorf("process %d: %v", i, err)
			}
		}
	}
	if d := time.Since(start); d > patience.Stretch(2*time.Second) {
		t.Errorf("took %v", d)
	}
}
