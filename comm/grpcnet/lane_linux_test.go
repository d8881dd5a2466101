package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
	"github.com/gradlab/gradlab/comm/shm"
)

// overLinks runs a test with what the processes of a run talk through, as all of t from then
// on.
func overLinks(t *testing.T, links Links, name string, test func(t *testing.T)) {
	if testLinks != links {
		testLinks = links
		t.Cleanup(func() { testLinks = LinksGRPC }) // after those that run beside each other
	}
	t.Run(name, test)
}

// overMemory is overLinks with shared memory.
func overMemory(t *testing.T, name string, test func(t *testing.T)) {
	overLinks(t, LinksSHM, name, test)
}

// netTests are what a net must do and survive, whatever frames go through.
var netTests = map[string]func(t *testing.T){
	"conformance":            TestConformance,
	"many conversations":     TestManyConversations,
	"flood both ways":        TestTrapFloodBothWays,
	"header":                 TestHeaderTravelsWhole,
	"too large a frame":      TestTooLargeAFrame,
	"deadlines":              TestDeadlines,
	"nobody left":            TestNobodyLeft,
	"nobody left but itself": TestNobodyLeftButOneself,
	"panic":                  TestPanicIsAFailure,
	"start and stop":         TestStartAndStop,
	"bodies given back once": TestTrapBodiesAreGivenBackOnce,
	"lent bytes":             TestTrapLentBytesAreReadLate,
	"all-reduces":            TestAllReducesOverProcesses,
	"streams":                TestStreams,
	"streams end":            TestStreamsEnd,
	"hostile port":           TestHostilePort,
	"hostile clients":        TestHostileClients,
	"second introduction":    TestF24SecondIntroduction,
	"killed peer":            TestF2KilledPeer,
	"stopped peer":           TestF9StoppedPeer,
	"stopped reader":         TestF27StoppedReader,
	"deaf reader":            TestF27DeafReader,
	"cut link":               TestF7CutLink,
	"no farewell":            TestNoFarewellToTheLost,
}

// What a net must do and survive holds over shared memory, too.
func TestLanes(t *testing.T) {
	for name, test := range netTests {
		overMemory(t, name, test)
	}
}

// And over TCP connections.
func TestSockets(t *testing.T) {
	for name, test := range netTests {
		overLinks(t, LinksTCP, name, test)
	}
}

// What a killed peer has written before its end still counts, and comes before
// the news of its death.
func TestF2LastWordsInMemory(t *testing.T) {
	overMemory(t, "", func(t *testing.T) {
		ready := make(chan *kid, 1)
		runWithChild(t, false, ready, func(ctx context.Context, h comm.Host) error {
			child := <-ready // has sent two frames
			if err := child.Signal(syscall.SIGKILL); err != nil {
				return err
			}
			if err := h.Sleep(ctx, 300*time.Millisecond); err != nil {
				return err
			}
			for range 2 {
				f, err := h.Recv(ctx, 1, 0)
				if err != nil {
					return err
				}
				f.Release()
			}
			_, err := h.Recv(ctx, 1, 0)
			var p *comm.PeerError
			if !errors.As(err, &p) {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})()
	})
}

// ways are those that a lane may have.
var ways = []Links{LinksSHM, LinksTCP}

// F14: nonsense in the memory, or on the connection, ends the link with a reason; nobody
// crashes.
func TestF14NonsenseInALane(t *testing.T) {
	header := comm.AppendHeader(nil, &comm.Header{From: 1}, 0, 16)
	damaged := append([]byte(nil), header...)
	damaged[50] ^= 1
	foreign := comm.AppendHeader(nil, &comm.Header{From: 0}, 0, 0)
	record := func(kind byte, payload []byte) []byte {
		b := []byte{kind, 0, 0, 0}
		b = append(le.AppendUint32(b, uint32(len(payload))), payload...)
		return append(b, make([]byte, -len(b)&7)...)
	}
	for name, bytes := range map[string][]byte{
		"unknown kind":     record('?', nil),
		"a chunk":          record(msgChunk, []byte("12345678")),
		"a long message":   record(msgAbort, make([]byte, 5+maxCause)),
		"odd prefix":       {msgBye, 1, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		"foreign farewell": record(msgBye, []byte{0, 0, 0, 0}),
		"short header":     record(msgFrame, header[:80]),
		"damaged header":   record(msgFrame, damaged),
		"foreign frame":    record(msgFrame, foreign),
	} {
		for _, links := range ways {
			h, write, end := laneAlone(t, links)
			write(bytes)
			var p *comm.PeerError
			if _, err := h.Recv(t.Context(), 1, 0); !errors.As(err, &p) || !strings.Contains(p.Cause, "not understood") {
				t.Errorf("%s, %s: got %v", links, name, err)
			}
			end()
		}
	}
}

// laneAlone makes rank 0 with a lane to rank 1, and what writes at the other end of it. Of
// memory nobody but waits reads.
func laneAlone(t *testing.T, links Links) (h *host, write func(b []byte), end func()) {
	t.Helper()
	r := &run{
		cfg:  &Config{World: 2, QueueBytes: 1 << 20, MaxFrame: 1 << 30, Logf: t.Logf, Deadline: time.Minute, Lease: time.Minute},
		wire: new(comm.Traffic), table: []process{{Ranks: []int{0}}, {Ranks: []int{1}}}, gone: make([]atomic.Pointer[goneRank], 2),
		owner: []int{0, 1}, links: newLinks(2),
	}
	r.ctx, r.cancel = context.WithCancelCause(t.Context())
	h = newHost(r, 0)
	r.hosts = map[int]*host{0: h}
	link := func(w *way) *link {
		l := newLink(r, 1, nil, &conn{private: true}, w)
		r.links[1].Store(l)
		return l
	}
	over := func() { h.Box.Close(errEnded); r.cancel(nil) }
	if links == LinksSHM {
		here, o, err := shm.Create(lane.MemoryBytes)
		if err != nil {
			t.Fatal(err)
		}
		there, err := shm.Open(o, lane.MemoryBytes)
		if err != nil {
			t.Fatal(err)
		}
		link(&way{memory: here})
		write = func(b []byte) {
			there.Out.Wrote(copy(there.Out.Next(len(b)), b))
			there.Out.Publish()
		}
		return h, write, func() {
			over()
			(&way{memory: there}).discard()
			(&way{memory: here}).discard()
		}
	}
	here, there := connected(t)
	c := newConn(here, r.wire)
	w, err := onPipes([]*aside{{conn: c, secured: c}}, false)
	if err != nil {
		t.Fatal(err)
	}
	l := link(w)
	r.tasks.Go(l.lane.Receive)
	write = func(b []byte) {
		if _, err := there.Write(b); err != nil {
			t.Error(err)
		}
	}
	return h, write, func() {
		over()
		l.takeDown()
		l.lane.Cut()
		there.Close()
		r.tasks.Wait()
		l.lane.End()
	}
}

// connected makes both ends of a connection.
func connected(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if here, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return here, there
}

// Who waits for a frame reads it by itself: nobody else has to be woken for that. So it
// learns of what is not understood.
func TestWaitsRead(t *testing.T) {
	h, write, end := laneAlone(t, LinksSHM)
	defer end()
	body := "sixteen bytes...and one that is cut"
	b := append([]byte{msgFrame, 0, 0, 0}, comm.HeaderSize, 0, 0, 0)
	b = append(comm.AppendHeader(b, &comm.Header{From: 1, Tag: 3}, len(body), len(body)), body...)
	b = append(b, make([]byte, -len(b)&7)...)
	b = append(b, b...)
	b = append(b, '?', 0, 0, 0, 0, 0, 0, 0)
	write(b)
	for range 2 {
		f, err := h.Recv(t.Context(), 1, 3)
		if err != nil || string(f.Body) != body {
			t.Fatalf("%q %v", f.Body, err)
		}
		f.Release()
	}
	var p *comm.PeerError
	if _, err := h.Recv(t.Context(), 1, 3); !errors.As(err, &p) || !strings.Contains(p.Cause, "not understood") {
		t.Errorf("got %v", err)
	}
}

// Bytes through memory are told as such, billed ones stay the same, and sockets
// carry next to nothing.
func TestLaneTraffic(t *testing.T) {
	overMemory(t, "", func(t *testing.T) {
		errs := together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
			for _, size := range []int{0, 5, 100_000, 3_000_000} {
				if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, comm.NewBuffer(size))); err != nil {
					return err
				}
				f, err := h.Recv(ctx, 1-h.Rank(), 0)
				if err != nil {
					return err
				}
				f.Release()
			}
			c := h.Traffic().Count()
			const billed, most = 3_100_005, 3_100_005 + 4*(comm.HeaderSize+16)
			if c.SentBytes[comm.Gradient] != billed || c.RecvBytes[comm.Gradient] != billed {
				return fmt.Errorf("billed %d and %d", c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient])
			}
			if c.SharedRecv < billed || c.SharedRecv > most || c.SharedSent > most {
				return fmt.Errorf("shared %d and %d", c.SharedSent, c.SharedRecv)
			}
			if c.WireSent > 20_000 {
				return fmt.Errorf("%d bytes through sockets", c.WireSent)
			}
			return nil
		}), split(2, 1), nil)
		if err := firstOf(errs); err != nil {
			t.Error(err)
		}
	})
}

// Who wants shared memory where there is none is told so; who does not insist
// goes on over gRPC.
func TestLinksSetting(t *testing.T) {
	t.Parallel()
	shared := func(a, b Links) (uint64, error) {
		var through uint64
		err := firstOf(together(t.Context(), all(2, func(ctx context.Context, h comm.Host) error {
			if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, comm.NewBuffer(100))); err != nil {
				return err
			}
			f, err := h.Recv(ctx, 1-h.Rank(), 0)
			f.Release()
			if h.Rank() == 0 {
				through = h.Traffic().Count().SharedSent
			}
			return err
		}), split(2, 1), func(i int, c *Config) { c.Links = []Links{a, b}[i] }))
		return through, err
	}
	for _, c := range []struct {
		a, b   Links
		shared bool
		fails  bool
	}{
		{LinksAuto, LinksAuto, true, false}, {LinksSHM, LinksSHM, true, false}, {LinksSHM, LinksAuto, true, false}, {"", "", true, false},
		{LinksGRPC, LinksGRPC, false, false}, {LinksAuto, LinksGRPC, false, false}, {LinksGRPC, LinksAuto, false, false},
		{LinksSHM, LinksGRPC, false, true}, {LinksGRPC, LinksSHM, false, true},
		{LinksTCP, LinksTCP, false, false}, {LinksTCP, LinksAuto, false, false}, {LinksTCP, LinksGRPC, false, true}, {LinksSHM, LinksTCP, false, true},
	} {
		through, err := shared(c.a, c.b)
		if (err != nil) != c.fails || (through > 0) != c.shared {
			t.Errorf("%s and %s: %d bytes through memory, %v", c.a, c.b, through, err)
		}
		if why := fmt.Sprint(err); c.fails && !strings.Contains(why, "no shared memory") && !strings.Contains(why, "was told to use links=") {
			t.Error(err)
		}
	}
	cfg := quick(1, 0)
	cfg.Links = "pigeon"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "pigeon") {
		t.Error(err)
	}
}
