package grpcnet

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// attack is what filled 3.8 GB in 18 s once: 32 connections of 8 streams on Frames, each
// with as much data as it may send, by gRPC's own client and by one that shows a wrong
// proof first. It returns the most memory in use meanwhile.
func attack(ctx context.Context, addr string, rounds int) (most uint64) {
	var peak atomic.Uint64
	look := func() {
		for now, was := heap(), peak.Load(); now > was && !peak.CompareAndSwap(was, now); was = peak.Load() {
		}
	}
	data := make([]byte, maxMessage)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for range rounds {
				if i%2 == 0 {
					streams(ctx, addr, data, look)
				} else {
					guess(addr, data, look)
				}
			}
		})
	}
	all.Wait()
	return peak.Load()
}

// streams opens 8 streams without any proof and fills them.
func streams(ctx context.Context, addr string, data []byte, look func()) {
	ctx, cancel := context.WithTimeout(ctx, patience.Stretch(300*time.Millisecond))
	defer cancel()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		return
	}
	defer c.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := c.NewStream(ctx, &framesDesc, "/"+service.ServiceName+"/"+framesDesc.StreamName)
			for n := 0; err == nil && n < 8; n++ {
				err = s.SendMsg(mem.BufferSlice{mem.SliceBuffer(data)})
				look()
			}
			look()
		})
	}
	all.Wait()
}

// guess shows a proof that is none, and goes on as if it had been one.
func guess(addr string, data []byte, look func()) {
	for range 8 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(patience.Stretch(300 * time.Millisecond)))
		_, _ = c.Write(append([]byte{helloPlain}, make([]byte, 2*nonceSize)...))
		_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		_, _ = c.Write(data)
		look()
		c.Close()
	}
}

// more is the memory that an attack may cost.
const more = 64 << 20

// F19: strangers who open as many streams as they can, while ranks are awaited and while
// a run goes on, cost at most 64 MiB and a few lines; the ranks then come, and the run
// goes on.
func TestF19AttackOfStreams(t *testing.T) {
	runtime.GC()
	before := heap()
	var lines atomic.Int32
	tune := func(c *Config) {
		c.JoinTimeout = patience.Stretch(time.Minute)
		c.Logf = func(string, ...any) { lines.Add(1) }
	}
	first := quick(2, 0)
	tune(&first)
	lead, err := New(first)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var live uint64
	steps := pingPong(&stop, func(ctx context.Context, h comm.Host) error {
		live = attack(ctx, h.(*host).run.addr, 4)
		return nil
	})
	ended := make(chan error, 2)
	go func() { ended <- lead.Run(t.Context(), []comm.Program{steps}) }()
	awaited := attack(t.Context(), lead.Addr(), 4)
	second := quick(2, 1)
	second.Coordinator = lead.Addr()
	tune(&second)
	other, err := New(second)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- other.Run(t.Context(), []comm.Program{steps}) }()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for when, most := range map[string]uint64{"while ranks are awaited": awaited, "while the run goes on": live} {
		if most == 0 || most > before+more {
			t.Errorf("%s: %d MiB in use, %d before", when, most>>20, before>>20)
		}
		t.Logf("%s: %.1f MiB in use, %.1f before", when, float64(most)/(1<<20), float64(before)/(1<<20))
	}
	if n := lines.Load(); n == 0 || n > 40 {
		t.Errorf("%d lines were logged", n)
	}
}

// F19: of strangers who connect and say nothing at most 32 are kept, and five a rank; the
// oldest end.
func TestF19SilentStrangers(t *testing.T) {
	const strangers, kept = 100, maxPending + 2*(1+farPipes)
	c := quick(2, 0)
	c.JoinTimeout, c.ConnectTimeout = patience.Stretch(10*time.Minute), patience.Stretch(10*time.Minute)
	lead, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- lead.Run(ctx, []comm.Program{func(context.Context, comm.Host) error { return nil }}) }()
	ended := make(chan int, strangers)
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
		cancel()
		<-over
	}()
	for i := range strangers {
		conn, err := net.Dial("tcp", lead.Addr())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			ended <- i
		}()
	}
	limit := time.After(patience.Stretch(20 * time.Second))
	for n := range strangers - kept {
		select {
		case i := <-ended:
			if i >= strangers-kept {
				t.Errorf("stranger %d was ended, one of the last %d", i, kept)
			}
		case <-limit:
			t.Fatalf("%d of %d strangers were ended, want %d", n, strangers, strangers-kept)
		}
	}
}
