package grpcnet

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// The test binary plays the other process when it is called with -child.
var childOf = flag.String("child", "", "address of the coordinator to join as rank 1, or \"coordinator\" to be it")

func TestMain(m *testing.M) {
	flag.DurationVar(&lease, "lease", 0, "of the runs with a child")
	flag.Func("links", "what the child's links are", func(s string) error { testLinks = Links(s); return nil })
	flag.Parse()
	if *childOf != "" {
		os.Exit(child(*childOf))
	}
	lease = patience.Stretch(1500 * time.Millisecond)
	patience.Beside(8) // they wait for leases to end
	goleak.VerifyTestMain(m)
}

// lease of the runs with a child, the same on both sides.
var lease time.Duration

func withChild(rank int, coordinator string) Config {
	c := quick(2, rank)
	c.Coordinator, c.Lease, c.QueueBytes = coordinator, lease, 4<<20
	return c
}

// child sends two frames, says so on its output, and then listens for ever.
func child(coordinator string) int {
	cfg := withChild(1, coordinator)
	if coordinator == "coordinator" {
		cfg = withChild(0, "")
	}
	n, err := New(cfg)
	if err == nil {
		fmt.Println(n.Addr())
		err = n.Run(context.Background(), []comm.Program{func(ctx context.Context, h comm.Host) error {
			for range 2 {
				if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, comm.NewBuffer(100))); err != nil {
					return err
				}
			}
			fmt.Println("ready")
			for {
				f, err := h.Recv(ctx, 1-h.Rank(), comm.AnyTag)
				if err != nil {
					return err
				}
				f.Release()
			}
		}})
	}
	var fenced *FencedError
	if errors.As(err, &fenced) {
		fmt.Println("fenced:", err)
		return 75
	}
	fmt.Println("ended:", err)
	return 1
}

// kid is a running child.
type kid struct {
	*os.Process
	ended <-chan struct{} // closed when it will say no more
}

// wake lets a stopped child go on, and waits until it has heard what became of
// it: to a process that has ended it would only find the connection lost.
func (k *kid) wake() error {
	if err := k.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	select {
	case <-k.ended:
		return nil
	case <-time.After(patience.Stretch(20 * time.Second)):
		return errors.New("the child goes on as if nothing had been")
	}
}

// runWithChild runs p beside a child, which is the coordinator or joins. It gives
// the child to who asks on the channel once the child is ready.
func runWithChild(t *testing.T, coordinator bool, ready chan<- *kid, p comm.Program) (output func() string) {
	t.Helper()
	var n *Net
	var err error
	role := "coordinator"
	if !coordinator {
		if n, err = New(withChild(0, "")); err != nil {
			t.Fatal(err)
		}
		role = n.Addr()
	}
	cmd := exec.Command(os.Args[0], "-child", role, "-links", string(testLinks), "-lease", lease.String())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	read := make(chan struct{})
	r := bufio.NewReader(out)
	addr, _ := r.ReadString('\n')
	if coordinator {
		if n, err = New(withChild(1, strings.TrimSpace(addr))); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		defer close(read)
		line, _ := r.ReadString('\n')
		if line == "ready\n" {
			ready <- &kid{cmd.Process, read}
		} else {
			rest.WriteString(line)
		}
		_, _ = io.Copy(&rest, r)
	}()
	if err := n.Run(t.Context(), []comm.Program{p}); err != nil {
		t.Error(err)
		_ = cmd.Process.Kill() // it may be stopped
	}
	return func() string {
		<-read
		_ = cmd.Wait()
		return rest.String()
	}
}

// hurt reads the child's two frames, sends it a signal, and expects its death
// to be noticed in time.
func hurt(t *testing.T, child *os.Process, sig os.Signal, what string, within time.Duration) comm.Program {
	return func(ctx context.Context, h comm.Host) error {
		for range 2 {
			f, err := h.Recv(ctx, 1-h.Rank(), 0)
			if err != nil {
				return err
			}
			f.Release()
		}
		died := time.Now()
		if err := child.Signal(sig); err != nil {
			return err
		}
		_, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
		took := time.Since(died)
		var p *comm.PeerError
		if !errors.As(err, &p) || p.Rank != 1-h.Rank() || !strings.Contains(p.Cause, what) || took > within {
			return fmt.Errorf("got %v after %v", err, took)
		}
		t.Logf("noticed after %v: %v", took.Round(time.Millisecond), err)
		if _, err := h.Recv(ctx, 1-h.Rank(), 0); !errors.As(err, &p) {
			return fmt.Errorf("got %v", err)
		}
		if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, nil)); !errors.As(err, &p) || p.Rank != 1-h.Rank() {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}
}

// F2: kill -9.
func TestF2KilledPeer(t *testing.T) {
	for _, coordinator := range []bool{false, true} {
		ready := make(chan *kid, 1)
		runWithChild(t, coordinator, ready, func(ctx context.Context, h comm.Host) error {
			return hurt(t, (<-ready).Process, syscall.SIGKILL, "connection lost", patience.Stretch(10*time.Second))(ctx, h)
		})()
	}
}

// F9: a stopped process is gone after its lease, and fenced when it wakes.
func TestF9StoppedPeer(t *testing.T) {
	t.Parallel()
	for _, coordinator := range []bool{false, true} {
		t.Run(fmt.Sprintf("the coordinator: %v", coordinator), func(t *testing.T) {
			t.Parallel()
			stopped(t, coordinator)
		})
	}
}

func stopped(t *testing.T, coordinator bool) {
	ready := make(chan *kid, 1)
	output := runWithChild(t, coordinator, ready, func(ctx context.Context, h comm.Host) error {
		p := <-ready
		if err := hurt(t, p.Process, syscall.SIGSTOP, "silent for", lease+patience.Stretch(20*time.Second))(ctx, h); err != nil {
			return err
		}
		// By its own clock too it is to have been away for longer than its lease: its
		// last sign of life came before it was stopped.
		time.Sleep(lease)
		return p.wake()
	})
	if s := output(); !strings.Contains(s, "fenced: ") || !strings.Contains(s, "its lease is "+lease.String()) {
		t.Errorf("the child said %q", s)
	}
}

// F27: a reader that has stopped blocks a sender no longer than its lease, and
// what waits for it is bounded.
func TestF27StoppedReader(t *testing.T) {
	t.Parallel()
	ready := make(chan *kid, 1)
	output := runWithChild(t, false, ready, func(ctx context.Context, h comm.Host) error {
		p := <-ready
		for range 2 {
			f, err := h.Recv(ctx, 1, 0)
			if err != nil {
				return err
			}
			f.Release()
		}
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		sent, slowest := 0, time.Duration(0)
		for {
			start := time.Now()
			err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, comm.NewBuffer(chunk)))
			slowest = max(slowest, time.Since(start))
			var e *comm.PeerError
			if errors.As(err, &e) {
				break
			}
			if err != nil {
				return err
			}
			sent++
		}
		t.Logf("%d MB were taken, the slowest send took %v", sent, slowest)
		// What the child took before it stopped, the queue, windows and sockets.
		if slowest > lease+patience.Stretch(20*time.Second) {
			return fmt.Errorf("a send took %v", slowest)
		}
		return p.wake()
	})
	if s := output(); !strings.Contains(s, "fenced: ") {
		t.Errorf("the child said %q", s)
	}
}

// F27: a process that lives and says so, but takes nothing, is dropped too.
func TestF27DeafReader(t *testing.T) {
	t.Parallel()
	lease := patience.Stretch(time.Second)
	if err := patience.Steady(lease, func() error { return deafReader(t.Context(), lease) }); err != nil {
		t.Error(err)
	}
}

// deafReader is one run with such a reader, and what was wrong with it.
func deafReader(ctx context.Context, lease time.Duration) error {
	deaf := make(chan struct{})
	errs := together(ctx, all(2, func(ctx context.Context, h comm.Host) error {
		l := h.(*host).run.links[1-h.Rank()].Load()
		if h.Rank() == 1 {
			l.mu.Lock() // its receiver hangs, its heartbeats go on
			<-deaf
			l.mu.Unlock()
			return h.Sleep(ctx, patience.Stretch(2*time.Second))
		}
		for {
			err := h.Send(ctx, 1, comm.NewFrame(comm.Header{}, comm.NewBuffer(chunk)))
			var e *comm.PeerError
			if errors.As(err, &e) && strings.Contains(e.Cause, "takes no data") {
				deaf <- struct{}{}
				return h.Sleep(ctx, patience.Stretch(500*time.Millisecond)) // so that the other can still be told
			}
			if err != nil {
				return err
			}
		}
	}), split(2, 1), func(_ int, c *Config) { c.Lease, c.QueueBytes = lease, 4<<20 })
	var fenced *FencedError
	switch {
	case errs[0] != nil:
		return errs[0]
	case !errors.As(errs[1], &fenced):
		return fmt.Errorf("the deaf one was told %v", errs[1])
	}
	return nil
}

// A wire that can be cut without closing anything.
type cable struct {
	net.Listener
	cut chan struct{}
	wg  sync.WaitGroup
}

// newCable forwards what is said to it to addr.
func newCable(t *testing.T) (c *cable, to func(addr string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &cable{Listener: l, cut: make(chan struct{})}
	return c, func(addr string) {
		c.wg.Go(func() {
			for {
				a, err := l.Accept()
				if err != nil {
					return
				}
				b, err := net.Dial("tcp", addr)
				if err != nil {
					a.Close()
					continue
				}
				c.wg.Go(func() { c.copy(a, b) })
				c.wg.Go(func() { c.copy(b, a) })
			}
		})
	}
}

func (c *cable) copy(dst, src net.Conn) {
	buf := make([]byte, 1<<16)
	defer src.Close()
	for {
		n, err := src.Read(buf)
		select {
		case <-c.cut: // swallow for ever; not even an end gets through
			for err == nil {
				_, err = src.Read(buf)
			}
			return
		default:
		}
		if _, e := dst.Write(buf[:n]); err != nil || e != nil {
			dst.Close()
			return
		}
	}
}

// F7: a worker that hears nothing from another process gives up that one link. Its word
// ends nobody else: whom it calls dead goes on with those who still hear of it. Only
// the coordinator's word ends a process.
func TestF7OneWayCut(t *testing.T) {
	for _, c := range []struct{ server, victim, other int }{{0, 1, 2}, {0, 2, 1}, {1, 2, 3}, {1, 3, 2}} {
		t.Run(fmt.Sprintf("rank %d hears nothing from rank %d", c.victim, c.server), func(t *testing.T) {
			var wg sync.WaitGroup
			wg.Add(1)
			world := c.server + 3
			errs := together(t.Context(), all(world, func(ctx context.Context, h comm.Host) error {
				say := func(to int) error { return h.Send(ctx, to, comm.NewFrame(comm.Header{}, comm.NewBuffer(100))) }
				hear := func(from int) error {
					f, err := h.Recv(ctx, from, 0)
					f.Release()
					return err
				}
				switch h.Rank() {
				case c.server: // answers both, then the one that is left
					var dead *comm.PeerError
					for n := 0; n < 20; {
						f, err := h.Recv(ctx, comm.AnyRank, 0)
						switch {
						case errors.As(err, &dead) && dead.Rank == c.victim:
							continue
						case err != nil:
							return err
						}
						f.Release()
						if dead != nil {
							n++
						}
						if err := say(int(f.Header.From)); err != nil && !errors.As(err, &dead) {
							return err
						}
					}
					wg.Done()
					return say(c.other)
				case c.victim:
					if err := errors.Join(say(c.server), hear(c.server)); err != nil {
						return err
					}
					h.(*host).run.links[c.server].Load().kill("silent for long, its lease is over", lease) // as the watcher does
					return hear(c.server)
				case c.other:
					for n := 0; ; n++ {
						if err := errors.Join(say(c.server), hear(c.server)); err != nil {
							var bye *comm.PeerError
							if n > 20 && errors.As(err, &bye) && bye.Rank == c.server {
								return nil
							}
							return err
						}
					}
				}
				wg.Wait() // the coordinator, where it is not the server
				return nil
			}), split(world, 1), nil)
			var dead *comm.PeerError
			for rank, err := range errs {
				switch {
				case rank == c.victim && (!errors.As(err, &dead) || dead.Rank != c.server):
					t.Errorf("rank %d, which hears nothing, ends with %v", rank, err)
				case rank != c.victim && err != nil:
					t.Errorf("rank %d does not go on: %v", rank, err)
				}
			}
		})
	}
}

// The coordinator's word ends a process: it holds every lease.
func TestF7TheCoordinatorFences(t *testing.T) {
	errs := together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			h.(*host).run.links[1].Load().kill("silent for long, its lease is over", lease)
			return nil
		}
		_, err := h.Recv(ctx, 0, 0)
		return err
	}), split(2, 1), nil)
	var fenced *FencedError
	if errs[0] != nil || !errors.As(errs[1], &fenced) || !strings.HasPrefix(fenced.By, "rank 0 at") {
		t.Errorf("the coordinator ends with %v, the other with %v", errs[0], errs[1])
	}
}

// A process that has given a peer up does not tell it that it has finished, even where it
// ends while it is still about to close the link: the peer would take that for a good end.
func TestNoFarewellToTheLost(t *testing.T) {
	p := func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			go h.(*host).run.links[1].Load().kill("silent for long, its lease is over", lease)
		}
		_, err := h.Recv(ctx, 1-h.Rank(), 0)
		var fenced *FencedError
		var e *comm.PeerError
		if !errors.As(err, &fenced) && (!errors.As(err, &e) || !e.Lost) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}
	oneEach(t, 2, func(i int, cfg *Config) {
		if i == 0 {
			cfg.Logf = func(string, ...any) { time.Sleep(300 * time.Millisecond) } // before the link is closed
		}
	}, func(int, *Net) {}, p)
}

// F7: a cut link is noticed on both sides. Most often the lease ends first; where both
// want a core and get none, so that a process cannot say who was silent, gRPC's pings
// may notice before it.
func TestF7CutLink(t *testing.T) {
	t.Parallel()
	c, to := newCable(t)
	defer c.wg.Wait()
	defer c.Close()
	var cutAt time.Time
	p := func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			f, err := h.Recv(ctx, 1, 0)
			if err != nil {
				return err
			}
			f.Release()
			cutAt = time.Now()
			close(c.cut)
		} else if err := h.Send(ctx, 0, comm.NewFrame(comm.Header{}, comm.NewBuffer(5000))); err != nil {
			return err
		}
		_, err := h.Recv(ctx, 1-h.Rank(), 0)
		took := time.Since(cutAt)
		var e *comm.PeerError
		noticed := errors.As(err, &e) && (strings.Contains(e.Cause, "silent for") || strings.Contains(e.Cause, "connection lost"))
		if !noticed || took > 3*lease+patience.Stretch(20*time.Second) {
			return fmt.Errorf("got %v after %v", err, took)
		}
		return nil
	}
	oneEach(t, 2, func(i int, cfg *Config) {
		if cfg.Lease = lease; i == 0 {
			cfg.Advertise = c.Addr().String()
		}
	}, func(i int, n *Net) {
		if i == 0 {
			to(n.lis.Addr().String())
		}
	}, p)
}
