package grpcnet

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/rng"
)

// weather is a wire on which bytes come late, each piece after a time of its own, and in
// pieces of any size: what delay, jitter, loss and reordering below TCP leave to be seen.
func weather(t *testing.T) (l net.Listener, to func(addr string), end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	pass := func(dst, src net.Conn, draw rng.Key) {
		defer dst.Close()
		defer src.Close()
		buf := make([]byte, 1<<16)
		for n := uint64(0); ; n++ {
			k, err := src.Read(buf[:1+draw.IntN(2*n, len(buf))])
			time.Sleep(time.Duration(draw.IntN(2*n+1, 3000)) * time.Microsecond)
			if _, e := dst.Write(buf[:k]); err != nil || e != nil {
				return
			}
		}
	}
	to = func(addr string) {
		wg.Go(func() {
			for n := uint64(0); ; n++ {
				a, err := l.Accept()
				if err != nil {
					return
				}
				b, err := net.Dial("tcp", addr)
				if err != nil {
					a.Close()
					continue
				}
				wg.Go(func() { pass(a, b, rng.New(n, "down")) })
				wg.Go(func() { pass(b, a, rng.New(n, "up")) })
			}
		})
	}
	return l, to, func() { l.Close(); wg.Wait() }
}

// F8: whatever the wire does to times, frames come whole, once and in order.
func TestF8Weather(t *testing.T) {
	t.Parallel()
	const frames = 60
	body := func(from, to, n int) []byte {
		draw := rng.New(uint64(n), "body").With(uint64(from)).With(uint64(to))
		b := make([]byte, draw.IntN(0, 40_000))
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], draw.Uint64(uint64(i+1)))
		}
		return b
	}
	program := func(ctx context.Context, h comm.Host) error {
		h.Go("send", func(ctx context.Context, h comm.Host) error {
			for n := range frames {
				for to := range h.Size() {
					if to == h.Rank() {
						continue
					}
					b := body(h.Rank(), to, n)
					buf := comm.NewBuffer(len(b))
					copy(buf.B, b)
					if err := h.Send(ctx, to, comm.NewFrame(comm.Header{Seq: uint64(n)}, buf)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for n := range frames {
			for from := range h.Size() {
				if from == h.Rank() {
					continue
				}
				f, err := h.Recv(ctx, from, 0)
				if err != nil {
					return err
				}
				if f.Header.Seq != uint64(n) || string(f.Body) != string(body(from, h.Rank(), n)) {
					return fmt.Errorf("rank %d, from %d: frame %d of %d bytes, want frame %d", h.Rank(), from, f.Header.Seq, len(f.Body), n)
				}
				f.Release()
			}
		}
		return nil
	}
	var wires []net.Listener
	var to []func(string)
	for range 3 {
		l, forward, end := weather(t)
		defer end()
		wires, to = append(wires, l), append(to, forward)
	}
	oneEach(t, 3, func(i int, c *Config) {
		c.Listen, c.Advertise, c.Links = "127.0.0.1:0", wires[i].Addr().String(), LinksGRPC
	}, func(i int, n *Net) { to[i](n.lis.Addr().String()) }, program)
}
