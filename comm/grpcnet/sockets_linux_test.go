package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// shapes are bodies on both sides of what is read at once, and beyond what a socket takes.
var shapes = []int{0, 1, 8, 5000, 100_000, 1 << 20, 9 << 20}

// exchange swaps bodies of all shapes between two ranks, lent and owned, and says how many
// bytes crossed sockets.
func exchange(ctx context.Context, h comm.Host, wire *uint64) error {
	s := h.(comm.Streamer)
	lent := make([]byte, shapes[len(shapes)-1])
	for i := range lent {
		lent[i] = byte(i * 3)
	}
	var loan comm.Loan
	for _, n := range shapes {
		if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{Tag: 1}, body(n, byte(n)))); err != nil {
			return err
		}
		if err := s.SendLent(ctx, 1-h.Rank(), comm.Header{Tag: 2}, lent[:n], &loan); err != nil {
			return err
		}
		f, err := h.Recv(ctx, 1-h.Rank(), 1)
		if err != nil {
			return err
		}
		same := string(f.Body) == string(body(n, byte(n)).B)
		f.Release()
		g, err := h.Recv(ctx, 1-h.Rank(), 2)
		if err != nil {
			return err
		}
		same = same && string(g.Body) == string(lent[:n])
		g.Release()
		if !same {
			return fmt.Errorf("bodies of %d bytes are damaged", n)
		}
		if err := loan.Wait(ctx); err != nil {
			return err
		}
	}
	*wire = h.Traffic().Count().WireSent
	return nil
}

// However a connection is secured, frames go over one of their own: in plain text on
// loopback, with checksums, by certificates of files, and by ones derived from the token.
func TestFramesOverTheirOwnConnection(t *testing.T) {
	files := authority(t)
	for name, tune := range map[string]func(c *Config){
		"plain text":              func(c *Config) {},
		"plain text with sums":    func(c *Config) { c.checkAll = true },
		"several connections":     func(c *Config) { c.pipes = 3 },
		"several, certificates":   func(c *Config) { c.pipes, c.TLS = 4, files },
		"certificates of files":   func(c *Config) { c.TLS = files },
		"certificates of a token": func(c *Config) { c.Listen = hostAddress(t) + ":0" },
		"plain text, other hosts": func(c *Config) { c.Listen, c.Insecure = hostAddress(t)+":0", true },
	} {
		t.Run(name, func(t *testing.T) {
			var own [2]*link
			var wire [2]uint64
			errs := together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
				own[h.Rank()] = h.(*host).run.links[1-h.Rank()].Load()
				return exchange(ctx, h, &wire[h.Rank()])
			}), split(2, 1), func(i int, c *Config) {
				c.Links = LinksTCP
				tune(c)
			})
			if err := firstOf(errs); err != nil {
				t.Fatal(err)
			}
			for _, l := range own {
				sent, read := l.lane.Carried()
				if l.conn.wrote.Load() > 50_000 || sent.Wire < 20_000_000 || read.Wire < 20_000_000 {
					t.Errorf("%d bytes by gRPC, %d sent and %d read by the other connection", l.conn.wrote.Load(), sent.Wire, read.Wire)
				}
			}
		})
	}
}

// A connection of frames that is cut, where the link's stream is not, ends the link when a
// lease is over, on both sides.
func TestF7CutFrames(t *testing.T) {
	t.Parallel()
	lease := patience.Stretch(time.Second)
	errs := together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 1 {
			h.(*host).run.links[0].Load().lane.Cut()
		}
		_, err := h.Recv(ctx, 1-h.Rank(), 0)
		var p *comm.PeerError
		if !errors.As(err, &p) || !p.Lost {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}), split(2, 1), func(i int, c *Config) { c.Links, c.Lease = LinksTCP, lease })
	if err := firstOf(errs); err != nil {
		t.Error(err)
	}
}

// narrow stands before a process and lets through what looks like gRPC alone: the first
// bytes behind the guard's are read, as on a port that a proxy of gRPC holds.
func narrow(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var pipes sync.WaitGroup
	t.Cleanup(func() { l.Close(); pipes.Wait() })
	pipes.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", addr)
			if err != nil {
				c.Close()
				continue
			}
			pipes.Go(func() {
				defer c.Close()
				defer d.Close()
				// What comes before the purpose: a hello, a nonce and a proof.
				if _, err := io.CopyN(d, c, 1+2*nonceSize); err != nil {
					return
				}
				var purpose [1]byte
				if _, err := io.ReadFull(c, purpose[:]); err != nil || purpose[0] != forGRPC {
					return
				}
				_, _ = d.Write(purpose[:])
				_, _ = io.Copy(d, c)
			})
			pipes.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, d)
			})
		}
	})
	return l.Addr().String()
}

// Where a connection for frames is not to be had they go by gRPC, and the log says so; who
// insists on one is told why there is none.
func TestOnlyGRPCGetsThrough(t *testing.T) {
	t.Parallel()
	for links, want := range map[Links]string{LinksAuto: "", LinksTCP: "no TCP connection for frames"} {
		var mu sync.Mutex
		var log []string
		var nets [2]*Net
		for i := range nets {
			c := quick(2, i)
			c.Links, c.machine = links, fmt.Sprint("machine ", i) // else they would share memory
			if i > 0 {
				c.Coordinator = nets[0].addr
			}
			c.Logf = func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, fmt.Sprintf(format, args...))
			}
			var err error
			if nets[i], err = New(c); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				nets[0].addr = narrow(t, nets[0].Addr())
			}
		}
		var errs [2]error
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i, n := range nets {
			wg.Go(func() {
				var wire uint64
				errs[i] = n.Run(ctx, []comm.Program{func(ctx context.Context, h comm.Host) error { return exchange(ctx, h, &wire) }})
				if errs[i] != nil {
					cancel()
				}
			})
		}
		wg.Wait()
		cancel()
		if want != "" && (errs[1] == nil || !strings.Contains(errs[1].Error(), want)) {
			t.Errorf("%s: got %v", links, errs[1])
		}
		if err := firstOf(errs[:]); want == "" && err != nil {
			t.Error(err)
		}
		if all := strings.Join(log, "\n"); want == "" && !strings.Contains(all, "go over gRPC") {
			t.Errorf("the log says %q", all)
		}
	}
}

// A stranger who asks for a connection for frames, or for what there is not, is turned away
// by the guard; who knows the token and never introduces a link is closed later, and neither
// is in anybody's way.
func TestStrangersToFrames(t *testing.T) {
	t.Parallel()
	err := firstOf(together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 1 {
			r := h.(*host).run
			stranger, open := *r.cfg, *r.cfg
			stranger.Token = otherToken
			for name, c := range map[string]*Config{"no token": &stranger, "no link": &open} {
				raw, err := net.Dial("tcp", r.table[0].Addr)
				if err != nil {
					return err
				}
				_, _, err = c.guard(nil, nil).present(ctx, newConn(raw, r.wire), &r.table[0])
				if (err == nil) != (name == "no link") {
					return fmt.Errorf("%s: got %v", name, err)
				}
				if err == nil {
					continue // it is closed at the end of the run
				}
				raw.Close()
			}
			raw, err := net.Dial("tcp", r.table[0].Addr)
			if err != nil {
				return err
			}
			defer raw.Close()
			c := newConn(raw, r.wire)
			if _, err := r.cfg.guard(nil, nil).call(ctx, r.table[0].Addr, c); err != nil {
				return err
			}
			if _, err := c.Write([]byte{'?'}); err != nil {
				return err
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				return errors.New("it was answered for an unknown purpose")
			}
		}
		var wire uint64
		return exchange(ctx, h, &wire)
	}), split(2, 1), func(i int, c *Config) { c.Links = LinksTCP }))
	if err != nil {
		t.Error(err)
	}
}
