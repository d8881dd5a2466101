package emulate

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// A line carries no more than its rate, and one quantum, in any window.
func TestLineKeepsToItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000
		l := line[int]{rate: 1e6}
		type span struct {
			from, to time.Duration
			bytes    float64
		}
		var busy []span
		ready := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "quanta") {
			ready += time.Duration(rapid.IntRange(0, 2000).Draw(t, "gap")) * time.Microsecond
			bytes := float64(rapid.IntRange(1, most).Draw(t, "bytes"))
			late := time.Duration(rapid.IntRange(-5000, 0).Draw(t, "since")) * time.Microsecond
			to := l.serve(bytes, ready+late)
			busy = append(busy, span{to - l.takes(bytes), to, bytes})
		}
		for i := range busy {
			sum := 0.0
			for _, s := range busy[i:] {
				sum += s.bytes
				if window := s.to - busy[i].to; sum > l.rate*window.Seconds()+most+1 {
					t.Fatalf("%v bytes in %v", sum, window)
				}
			}
			if i > 0 && busy[i].from < busy[i-1].to {
				t.Fatalf("busy twice at %v", busy[i].from)
			}
		}
	})
}

// rig is a cluster of NICs over messages that take a while, with a clock of its
// own: it rings up to late after the time asked for.
type rig struct {
	nics   []*nic
	lag    time.Duration
	late   func() time.Duration
	now    instant
	events rigEvents
	rings  []instant // when the next ring of each is due
	there  []instant // by frame: the order in which they were sent
	queue  map[[2]int][]int
	left   map[[2]int]int // bytes announced
}

type rigEvent struct {
	at    instant
	order int
	do    func()
}

type rigEvents struct {
	q     []rigEvent
	count int
}

func (e *rigEvents) Len() int { return len(e.q) }
func (e *rigEvents) Less(i, j int) bool {
	return e.q[i].at < e.q[j].at || e.q[i].at == e.q[j].at && e.q[i].order < e.q[j].order
}
func (e *rigEvents) Swap(i, j int) { e.q[i], e.q[j] = e.q[j], e.q[i] }
func (e *rigEvents) Push(x any)    { e.q = append(e.q, x.(rigEvent)) }
func (e *rigEvents) Pop() any      { x := e.q[len(e.q)-1]; e.q = e.q[:len(e.q)-1]; return x }

func newRig(ranks int, n NIC, lag time.Duration, late func() time.Duration) *rig {
	r := &rig{lag: lag, late: late, queue: map[[2]int][]int{}, left: map[[2]int]int{}, rings: make([]instant, ranks)}
	for rank := range ranks {
		r.nics = append(r.nics, newNIC(n, ranks, rigWire{r, rank}))
	}
	return r
}

func (r *rig) plan(at instant, do func()) {
	r.events.count++
	heap.Push(&r.events, rigEvent{at, r.events.count, do})
}

// act does something with a NIC and sets its clock.
func (r *rig) act(rank int, do func(x *nic)) {
	x := r.nics[rank]
	do(x)
	if at, ok := x.due(); ok && r.rings[rank] != at {
		r.rings[rank] = at
		r.plan(max(at, r.now)+r.late(), func() {
			if r.rings[rank] == at {
				r.rings[rank] = -1
			}
			r.act(rank, func(x *nic) { x.step(r.now) })
		})
	}
}

// send sends a frame at an instant and returns its number.
func (r *rig) send(at instant, from, to, bytes int) int {
	n := len(r.there)
	r.there = append(r.there, -1)
	r.plan(at, func() {
		r.queue[[2]int{from, to}] = append(r.queue[[2]int{from, to}], n)
		r.act(from, func(x *nic) { x.send(r.now, to, bytes) })
	})
	return n
}

// run lets everything happen up to an instant.
func (r *rig) run(until instant) {
	for r.events.Len() > 0 && r.events.q[0].at <= until {
		e := heap.Pop(&r.events).(rigEvent)
		r.now = e.at
		e.do()
	}
}

const forever = instant(math.MaxInt64)

type rigWire struct {
	*rig
	rank int
}

func (w rigWire) announce(to int, q quantum) {
	w.left[[2]int{w.rank, to}] += q.bytes
	w.plan(w.now+w.lag, func() { w.act(to, func(x *nic) { x.announced(w.now, w.rank, q) }) })
}

func (w rigWire) credit(to, n int) {
	w.plan(w.now+w.lag, func() { w.act(to, func(x *nic) { x.credited(w.now, w.rank, n) }) })
}

func (w rigWire) arrive(from int, at instant) {
	k := [2]int{from, w.rank}
	w.there[w.queue[k][0]] = at
	w.queue[k] = w.queue[k][1:]
}

func onTime() time.Duration { return 0 }

// Frames of a stream arrive in order, none before it can have, all of them; and a
// NIC has not carried more by any of them than there was time for.
func TestFramesArriveInOrderAndNoEarlier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := NIC{Bandwidth: 1e7, Latency: time.Duration(rapid.IntRange(0, 3000).Draw(t, "latency")) * time.Microsecond,
			Message: time.Duration(rapid.IntRange(0, 300).Draw(t, "message")) * time.Microsecond}
		ranks := rapid.IntRange(2, 5).Draw(t, "ranks")
		lag := time.Duration(rapid.IntRange(0, 4000).Draw(t, "lag")) * time.Microsecond
		r := newRig(ranks, n, lag, func() time.Duration {
			return time.Duration(rapid.IntRange(0, 3000).Draw(t, "late")) * time.Microsecond
		})
		type sent struct {
			at              instant
			from, to, bytes int
		}
		var frames []sent
		at := instant(0)
		for range rapid.IntRange(1, 30).Draw(t, "frames") {
			at += time.Duration(rapid.IntRange(0, 2000).Draw(t, "gap")) * time.Microsecond
			f := sent{at: at, from: rapid.IntRange(0, ranks-1).Draw(t, "from"), bytes: rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 60000)).Draw(t, "bytes")}
			f.to = (f.from + rapid.IntRange(1, ranks-1).Draw(t, "to")) % ranks
			frames = append(frames, f)
			r.send(f.at, f.from, f.to, f.bytes)
		}
		r.run(forever)
		takes := func(bytes int) time.Duration {
			if bytes == 0 {
				return 0
			}
			return time.Duration(float64(bytes)/n.Bandwidth*1e9) + n.Message
		}
		const rounding = 100 * time.Microsecond // a message's cost is whole bytes, quanta whole nanoseconds
		for i, f := range frames {
			if r.there[i] < 0 {
				t.Fatalf("frame %d, %+v, is lost", i, f)
			}
			if least := f.at + takes(f.bytes) + n.Latency; r.there[i] < least-rounding {
				t.Fatalf("frame %d, %+v, came at %v; it cannot before %v", i, f, r.there[i], least)
			}
			in, out := takes(f.bytes), takes(f.bytes)
			for j, e := range frames[:i] {
				if e.from == f.from && e.to == f.to && r.there[j] > r.there[i] {
					t.Fatalf("frame %d came after %d", j, i)
				}
			}
			for j := i - 1; j >= 0; j-- { // what was sent from then on and came before
				first := frames[j].at
				if r.there[j] > r.there[i] {
					continue
				}
				if frames[j].to == f.to {
					in += takes(frames[j].bytes)
				}
				if frames[j].from == f.from {
					out += takes(frames[j].bytes)
				}
				if span := r.there[i] - n.Latency - first; max(in, out) > span+rounding {
					t.Fatalf("frames %d … %d: the NIC was busy for %v or %v in %v", j, i, out, in, span)
				}
			}
		}
	})
}

// Streams that have enough to send never differ by more than a quantum, whether
// they meet where they leave or where they arrive.
func TestStreamsShareFairly(t *testing.T) {
	n := NIC{Bandwidth: 1e7, Latency: time.Millisecond}
	const bytes = 400_000
	t.Run("out", func(t *testing.T) {
		r := newRig(4, n, 0, onTime)
		for to := 1; to < 4; to++ {
			r.send(0, 0, to, bytes)
		}
		for at := instant(0); at < 100*time.Millisecond; at += time.Millisecond {
			r.run(at)
			for to := 2; to < 4; to++ {
				if d := r.left[[2]int{0, 1}] - r.left[[2]int{0, to}]; max(d, -d) > r.nics[0].quantum {
					t.Fatalf("at %v stream 1 is %d bytes ahead of %d", at, d, to)
				}
			}
		}
	})
	t.Run("in", func(t *testing.T) {
		r := newRig(4, n, 100*time.Microsecond, onTime)
		var f []int
		for from := 1; from < 4; from++ {
			f = append(f, r.send(0, from, 0, bytes))
		}
		r.run(forever)
		quantum := quantumTime
		for _, i := range f[1:] {
			if d := r.there[i] - r.there[f[0]]; max(d, -d) > 3*quantum {
				t.Fatalf("three equal streams end %v apart", d)
			}
		}
		last := max(r.there[f[0]], r.there[f[1]], r.there[f[2]])
		want := time.Duration(3*bytes/n.Bandwidth*1e9) + n.Latency
		if d := last - want; max(d, -d) > 2*quantum {
			t.Fatalf("the last of three streams ends at %v, want %v", last, want)
		}
	})
}

// A clock that rings late costs nothing: what is late is caught up with.
func TestLatenessDoesNotAddUp(t *testing.T) {
	n := NIC{Bandwidth: 1e7, Latency: time.Millisecond}
	r := newRig(2, n, 300*time.Microsecond, func() time.Duration { return 2 * time.Millisecond })
	f := r.send(0, 0, 1, 2_000_000)
	r.run(forever)
	if want := 201 * time.Millisecond; r.there[f] < want || r.there[f] > want+3*time.Millisecond {
		t.Errorf("200 ms of bytes over a NIC whose clock is 2 ms late came after %v", r.there[f])
	}
}

// NICs in turns and the fair network of the virtual cluster agree on when bulk is
// through, whoever sends what to whom.
func TestAgreesWithTheFairNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := NIC{Bandwidth: 1e7, Latency: time.Millisecond}
		ranks := rapid.IntRange(2, 5).Draw(t, "ranks")
		size := map[[2]int]int{}
		for range rapid.IntRange(1, 8).Draw(t, "streams") {
			from := rapid.IntRange(0, ranks-1).Draw(t, "from")
			to := (from + rapid.IntRange(1, ranks-1).Draw(t, "to")) % ranks
			size[[2]int{from, to}] = rapid.IntRange(200_000, 2_000_000).Draw(t, "bytes")
		}
		r := newRig(ranks, n, 50*time.Microsecond, onTime)
		frame := map[[2]int]int{}
		for from := range ranks {
			for to := range ranks {
				if k := [2]int{from, to}; size[k] > 0 {
					frame[k] = r.send(0, from, to, size[k])
				}
			}
		}
		r.run(forever)
		fair, err := fairTimes(ranks, n, size)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range fair {
			if got := r.there[frame[k]]; math.Abs(float64(got-want)) > 0.05*float64(want)+float64(2*window*quantumTime) {
				t.Fatalf("%d bytes from %d to %d of %v came after %v, by the virtual cluster after %v", size[k], k[0], k[1], size, got, want)
			}
		}
	})
}

// fairTimes is when frames that are all sent at 0 arrive on the virtual cluster.
func fairTimes(ranks int, n NIC, size map[[2]int]int) (map[[2]int]time.Duration, error) {
	out := map[[2]int]time.Duration{}
	ps := make([]comm.Program, ranks)
	for me := range ps {
		ps[me] = func(ctx context.Context, h comm.Host) error {
			expect := 0
			for other := range ranks {
				if b := size[[2]int{me, other}]; b > 0 {
					if err := h.Send(ctx, other, comm.Frame{Header: comm.Header{Kind: comm.Gradient}, Billed: b}); err != nil {
						return err
					}
				}
				if size[[2]int{other, me}] > 0 {
					expect++
				}
			}
			for range expect {
				f, err := h.Recv(ctx, comm.AnyRank, 0)
				if err != nil {
					return fmt.Errorf("rank %d: %w", me, err)
				}
				out[[2]int{int(f.Header.From), me}] = h.Now()
			}
			return nil
		}
	}
	net := &sim.Net{Network: &sim.Fair{Bandwidth: n.Bandwidth, Latency: n.Latency}}
	return out, net.Run(context.Background(), ps)
}
