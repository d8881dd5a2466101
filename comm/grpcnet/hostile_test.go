package grpcnet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// pingPong is an honest run of two ranks that goes on until stop is set.
func pingPong(stop *atomic.Bool, first func(ctx context.Context, h comm.Host) error) comm.Program {
	return func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			h.Go("hostile", func(ctx context.Context, h comm.Host) error {
				defer stop.Store(true)
				return first(ctx, h)
			})
		}
		for n := 0; ; n++ {
			var code uint8
			if stop.Load() {
				code = 1
			}
			if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{Code: code}, comm.NewBuffer(3000))); err != nil {
				return err
			}
			f, err := h.Recv(ctx, 1-h.Rank(), 0)
			if err != nil {
				return err
			}
			f.Release()
			if code == 1 && f.Header.Code == 1 {
				return nil
			}
		}
	}
}

// Hostile bytes on the port crash nothing and the honest run goes on.
func TestHostilePort(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	junk := make([]byte, 100<<10)
	_, _ = rand.Read(junk)
	frame := func(kind, flags byte, stream string, body string) string {
		return string([]byte{byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body)), kind, flags}) + stream + body
	}
	words := []string{
		"", string(junk), "GET / HTTP/1.1\r\n\r\n", preface, preface + string(junk), preface + settings + string(junk),
		preface + settings + frame(1, 4, "\x00\x00\x00\x01", string(junk[:500])),
		preface + settings + frame(0, 1, "\x00\x00\x00\x01", "hello") + frame(3, 0, "\x00\x00\x00\x01", "\x00\x00\x00\x08"),
		preface + settings + strings.Repeat(frame(6, 0, "\x00\x00\x00\x00", "12345678"), 1000),
		preface + "\xff\xff\xff\x04\x00\x00\x00\x00\x00",
	}
	var stop atomic.Bool
	errs := together(context.Background(), all(2, pingPong(&stop, func(ctx context.Context, h comm.Host) error {
		r := h.(*host).run
		var open []net.Conn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		for i := range 20 * len(words) {
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				return err
			}
			open = append(open, c)
			_, _ = io.WriteString(c, words[i%len(words)])
			// Many that say nothing are kept few.
			r.lis.mu.Lock()
			pending := len(r.lis.order)
			r.lis.mu.Unlock()
			if pending > maxPending+(1+farPipes)*2+1 { // one more for as long as the oldest is being closed
				return fmt.Errorf("%d strangers are connected", pending)
			}
		}
		return nil
	})), split(2, 1), nil)
	if err := firstOf(errs); err != nil {
		t.Fatal(err)
	}
}

// Those who speak gRPC but do not know the secret get nowhere.
func TestHostileClients(t *testing.T) {
	var stop atomic.Bool
	errs := together(context.Background(), all(2, pingPong(&stop, func(ctx context.Context, h comm.Host) error {
		own := h.(*host).run
		r, end := stranger(t, own.addr)
		defer end()
		r.key, r.table = []byte("guess"), own.table
		ctx, cancel := context.WithTimeout(ctx, patience.Stretch(5*time.Second))
		defer cancel()
		for i, desc := range []*grpc.StreamDesc{&joinDesc, &framesDesc, &joinDesc, &framesDesc} {
			d, err := r.dial(ctx, own.addr, desc)
			if err != nil {
				return err
			}
			var c challenge
			if err := recvJSON(d.stream, &c); err != nil {
				return err
			}
			if i < 2 {
				_ = sendBytes(d.stream, []byte("{\"protocol\":1,\"body\":\"////\",\"mac\":[[[[[["))
			} else {
				_ = sendSealed(d.stream, []byte("guess"), "link", c.Nonce, linkRequest{From: 1})
			}
			b, err := recvBytes(d.stream)
			if err == nil {
				var m sealed
				var reply joinReply
				if err := m.open([]byte("guess"), "joined", nil, &reply); err == nil {
					return fmt.Errorf("answered %q", b)
				}
			}
			d.close()
		}
		// A message beyond the limit ends the stream, not the process.
		d, err := r.dial(ctx, own.addr, &framesDesc)
		if err != nil {
			return err
		}
		defer d.close()
		big := make([]byte, maxMessage+1)
		_ = d.stream.SendMsg(mem.BufferSlice{mem.SliceBuffer(big)})
		_ = sendBytes(d.stream, big[:maxMessage])
		for err == nil {
			_, err = recvBytes(d.stream)
		}
		return nil
	})), split(2, 1), nil)
	if err := firstOf(errs); err != nil {
		t.Fatal(err)
	}
}

// F21, F24: an introduction holds once, for one run and one incarnation.
func TestF24SecondIntroduction(t *testing.T) {
	var stop atomic.Bool
	errs := together(context.Background(), all(2, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			return pingPong(&stop, func(ctx context.Context, h comm.Host) error {
				for !stop.Load() {
					if err := h.Sleep(ctx, time.Millisecond); err != nil {
						return err
					}
				}
				return nil
			})(ctx, h)
		}
		r := h.(*host).run
		for _, c := range []struct {
			tune func(*Config)
			want string
		}{
			{func(c *Config) {}, "may not come back"},
			{func(c *Config) { c.Incarnation = 7 }, "incarnation 7, the run has 0"},
			{func(c *Config) { c.Run = 8 }, "run 0000000000000008"},
		} {
			cfg := *r.cfg
			c.tune(&cfg)
			again := &run{cfg: &cfg, wire: r.wire, self: r.self, table: r.table, key: r.key}
			d, err := again.dial(ctx, r.table[0].Addr, &framesDesc)
			if err != nil {
				return err
			}
			_, err = again.introduce(ctx, d.stream, 0)
			d.close()
			var ref *RefusedError
			if !errors.As(err, &ref) || !strings.Contains(err.Error(), c.want) {
				return fmt.Errorf("got %v, want %q", err, c.want)
			}
		}
		stop.Store(true)
		return pingPong(&stop, nil)(ctx, h)
	}), split(2, 1), nil)
	if err := firstOf(errs); err != nil {
		t.Fatal(err)
	}
}

// F14: a member that sends nonsense is dropped, with a reason; nobody crashes.
func TestF14NonsenseFromAMember(t *testing.T) {
	bad := messages(sample(100), false)[0]
	bad[prefixSize+10] ^= 1
	foreign := messages(comm.NewFrame(comm.Header{From: 0, To: 0}, nil), false)[0]
	for _, msg := range [][]byte{
		{}, {'?'}, {msgChunk}, {msgFrame, 1, 2, 3}, bad, {msgBye}, rankMessage(msgBye, 0, ""),
		rankMessage(msgAbort, -1, "x"), foreign, messages(sample(100), true)[0],
	} {
		errs := together(context.Background(), all(2, func(ctx context.Context, h comm.Host) error {
			if h.Rank() == 1 {
				h.(*host).run.links[0].Load().queue.Tell(msg)
			}
			_, err := h.Recv(ctx, 1-h.Rank(), 0)
			var p *comm.PeerError
			if !errors.As(err, &p) {
				return fmt.Errorf("got %v", err)
			}
			if h.Rank() == 0 && !strings.Contains(p.Cause, "not understood") {
				return fmt.Errorf("got %v", err)
			}
			return nil
		}), split(2, 1), nil)
		if err := firstOf(errs); err != nil {
			t.Errorf("%q: %v", msg, err)
		}
	}
}
