package outside_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/outside"
	"github.com/gradlab/gradlab/comm/sim"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("OUTSIDE_RANKS"); path != "" {
		silent(path)
	}
	goleak.VerifyTestMain(m)
}

// silent is a process of two ranks, of which one asks for the time and the other says nothing.
func silent(path string) {
	for rank, says := range []string{`{"do":"all_reduce","id":7,"bytes":4,"width":4}`, `{"do":"now"}`} {
		c, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(1)
		}
		fmt.Fprintf(c, `{"do":"hello","rank":%d,"world":2}`+"\n%s\n", rank, says)
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

const bandwidth = 1e6 // bytes a second

func cluster() *outside.Cluster {
	return &outside.Cluster{Net: &sim.Net{Network: &sim.Fair{Bandwidth: bandwidth}}, Topology: collective.Ring{}, Speed: 1}
}

// script is what a rank does, and what it was told.
type script struct {
	events []outside.Event
	told   []time.Duration
}

func (s *script) Next() (outside.Event, error) {
	if len(s.events) == 0 {
		return outside.Event{}, io.EOF
	}
	e := s.events[0]
	s.events = s.events[1:]
	return e, nil
}

func (s *script) Tell(now time.Duration) error { s.told = append(s.told, now); return nil }

// play plays the same events on all ranks, and an end behind them.
func play(t *testing.T, c *outside.Cluster, ranks int, events func(rank int) []outside.Event) []outside.Rank {
	t.Helper()
	var sources []outside.Source
	for r := range ranks {
		sources = append(sources, &script{events: append(events(r), outside.Event{Do: outside.End})})
	}
	out, err := c.Play(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*want+1e-6 {
		t.Errorf("%s: %.6f; want %.6f", what, got, want)
	}
}

// Every operation takes what its bytes take through the NICs, without a latency, and
// sends no more than it has to.
func TestOperations(t *testing.T) {
	const ranks, n = 4, 1 << 20
	second := n / float64(bandwidth)
	for _, c := range []struct {
		do      string
		seconds float64 // until the last rank has it
		sent    uint64  // by all ranks
	}{
		{outside.AllReduce, 2 * second * 3 / 4, 6 * n},
		{outside.AllGather, 3 * second, 12 * n},
		{outside.ReduceScatter, 3 * second, 12 * n},
		{outside.AllToAll, 3 * second, 12 * n},
		{outside.Gather, 3 * second, 3 * n},
		{outside.Scatter, 3 * second, 3 * n},
		{outside.Broadcast, 0, 3 * n},
		{outside.Reduce, 0, 3 * n},
		{outside.Barrier, 0, 0},
	} {
		t.Run(c.do, func(t *testing.T) {
			for root := range ranks {
				out := play(t, cluster(), ranks, func(int) []outside.Event {
					e := outside.Event{Do: c.do, ID: 1, Bytes: n, Width: 4, Peer: root}
					if c.do == outside.Barrier {
						e.Bytes = 0
					}
					return []outside.Event{e, {Do: outside.Wait, ID: 1}}
				})
				var last float64
				var sent uint64
				for _, r := range out {
					last, sent = max(last, r.Seconds), sent+r.BytesSent
				}
				if sent != c.sent {
					t.Errorf("root %d: %d bytes sent; want %d", root, sent, c.sent)
				}
				if c.seconds > 0 {
					near(t, fmt.Sprintf("root %d", root), last, c.seconds)
				} else if most := 2*second + (256<<10)/float64(bandwidth); c.sent > 0 && (last < second || last > 1.001*most) {
					// In a tree of depth 2 the root has two NICs to fill, and the last piece is passed on.
					t.Errorf("root %d: %.3f s; want %.3f to %.3f", root, last, second, most)
				}
			}
		})
	}
}

// What is computed between the begin of an operation and the wait for it hides it.
func TestOverlap(t *testing.T) {
	const n = 1 << 20
	reduce := 2 * n / float64(bandwidth) / 2
	for _, computed := range []float64{0, 0.25, reduce, 3} {
		out := play(t, cluster(), 2, func(int) []outside.Event {
			return []outside.Event{
				{Do: outside.AllReduce, ID: 1, Bytes: n, Width: 4, Spent: 1},
				{Do: outside.Wait, ID: 1, Spent: computed},
				{Do: outside.Step},
			}
		})
		near(t, fmt.Sprintf("%v s beside it", computed), out[1].Steps[0], 1+max(computed, reduce))
		near(t, "waiting", out[1].Waiting, max(0, reduce-computed))
		near(t, "computing", out[1].Computing, 1+computed)
		if c := out[1].Operations[outside.AllReduce]; c.Number != 1 || c.Bytes != n {
			t.Errorf("counted %+v", c)
		}
	}
}

// Collectives of one group are made one behind the other, in the order in which they
// were begun. Those of two groups share the NIC: halves of both take turns.
func TestOrder(t *testing.T) {
	const n = 1 << 20
	reduce := n / float64(bandwidth)
	two := func(of int) func(int) []outside.Event {
		return func(int) []outside.Event {
			return []outside.Event{
				{Do: outside.AllReduce, ID: 1, Bytes: n, Width: 4, Spent: 1},
				{Do: outside.AllReduce, ID: 2, Bytes: n, Width: 4, Of: of},
				{Do: outside.Wait, ID: 1}, {Do: outside.Step},
				{Do: outside.Wait, ID: 2}, {Do: outside.Step},
			}
		}
	}
	for of, first := range []float64{1 + reduce, 1 + 1.5*reduce} {
		out := play(t, cluster(), 2, two(of))
		near(t, fmt.Sprintf("first of group %d", of), out[0].Steps[0], first)
		near(t, fmt.Sprintf("second of group %d", of), out[0].Steps[1], 1+2*reduce)
	}
}

// A rank that comes late is waited for, and waits for nobody.
func TestLate(t *testing.T) {
	out := play(t, cluster(), 3, func(rank int) []outside.Event {
		return []outside.Event{{Do: outside.Barrier, ID: 1, Spent: float64(rank)}, {Do: outside.Wait, ID: 1}}
	})
	for r, o := range out {
		near(t, fmt.Sprintf("rank %d", r), o.Waiting, 2-float64(r))
	}
}

// A thread that encodes works beside the main one, and what waits for it waits.
func TestActivities(t *testing.T) {
	out := play(t, cluster(), 1, func(int) []outside.Event {
		return []outside.Event{
			{Do: outside.Fork, ID: 1, Spent: 1},
			{Do: outside.Fork, ID: 2, Spent: 1},
			{Do: outside.End, Act: 1, Spent: 3},
			{Do: outside.Join, ID: 1, Act: 2},
			{Do: outside.End, Act: 2, Spent: 2},
			{Do: outside.Join, ID: 2, Spent: 0.5},
			{Do: outside.Step},
		}
	})
	near(t, "the end of the second", out[0].Steps[0], 1+3+2)
	near(t, "computing of the first thread", out[0].Computing, 2.5)
}

// In operations with a root all ranks are complete when all have begun, as gloo's are, so that no
// rank's process waits for more than its events say.
func TestAllHaveBegun(t *testing.T) {
	for _, do := range []string{outside.Broadcast, outside.Reduce, outside.Gather, outside.Scatter} {
		for _, bytes := range []int{0, 4000} {
			for late := range 4 {
				out := play(t, cluster(), 4, func(rank int) []outside.Event {
					e := outside.Event{Do: do, ID: 1, Bytes: bytes, Peer: 1}
					if rank == late {
						e.Spent = 1
					}
					return []outside.Event{e, {Do: outside.Wait, ID: 1}, {Do: outside.Step}}
				})
				for r, o := range out {
					if o.Steps[0] < 1 || o.Steps[0] > 1.02 {
						t.Errorf("%s of %d bytes: rank %d has it at %.3f s, rank %d begins it at 1", do, bytes, r, o.Steps[0], late)
					}
				}
			}
		}
	}
}

// Ranks may have different numbers of bytes for an all-gather and an all-to-all.
func TestUnequal(t *testing.T) {
	const n = 1e6
	for do, want := range map[string]struct {
		seconds float64
		sent    uint64
	}{outside.AllGather: {5, 12e6}, outside.AllToAll: {6, 12e6}} {
		out := play(t, cluster(), 3, func(rank int) []outside.Event {
			return []outside.Event{{Do: do, ID: 1, Bytes: (rank + 1) * n}, {Do: outside.Wait, ID: 1}}
		})
		var last float64
		var sent uint64
		for _, r := range out {
			last, sent = max(last, r.Seconds), sent+r.BytesSent
		}
		if sent != want.sent || last < want.seconds-0.01 || last > want.seconds+1.01 {
			t.Errorf("%s: %d bytes in %.3f s; want %d in little more than %v", do, sent, last, want.sent, want.seconds)
		}
	}
}

// A send begins when its receive has begun.
func TestMeeting(t *testing.T) {
	const n = 1e6
	for name, from := range map[string]int{"from the sender": 0, "from any": -1} {
		for send, recv := range map[float64]float64{0: 1, 1: 0} {
			out := play(t, cluster(), 2, func(rank int) []outside.Event {
				if rank == 0 {
					return []outside.Event{{Do: outside.Send, ID: 1, Bytes: n, Peer: 1, Spent: send}, {Do: outside.Wait, ID: 1}, {Do: outside.Step}}
				}
				return []outside.Event{{Do: outside.Recv, ID: 1, Peer: from, Spent: recv}, {Do: outside.Wait, ID: 1}, {Do: outside.Step}}
			})
			near(t, name+": the send", out[0].Steps[0], 1)
			near(t, name+": the receive", out[1].Steps[0], 2)
		}
	}
	// What is never received keeps nobody.
	out := play(t, cluster(), 2, func(rank int) []outside.Event {
		if rank == 0 {
			return []outside.Event{{Do: outside.Send, ID: 1, Bytes: n, Peer: 1}}
		}
		return nil
	})
	near(t, "an end", out[0].Seconds, 0)
}

// A pair of ranks, in groups too.
func TestPairs(t *testing.T) {
	const n = 1e6
	out := play(t, cluster(), 3, func(rank int) []outside.Event {
		switch rank {
		case 0:
			return []outside.Event{{Do: outside.Send, ID: 1, Bytes: n, Peer: 2, Tag: 5, Spent: 1}}
		case 1:
			return []outside.Event{{Do: outside.Send, ID: 1, Bytes: n, Peer: 2, Tag: 6, Group: []int{1, 2}}}
		}
		return []outside.Event{
			{Do: outside.Recv, ID: 1, Peer: -1, Tag: 6, Group: []int{1, 2}}, {Do: outside.Wait, ID: 1}, {Do: outside.Step},
			{Do: outside.Recv, ID: 2, Peer: 0, Tag: 5}, {Do: outside.Wait, ID: 2}, {Do: outside.Step},
		}
	})
	near(t, "the first", out[2].Steps[0], 1)
	near(t, "the second", out[2].Steps[1], 2)
}

// Devices are as fast as is said; what a script states is the device's own time.
func TestSpeed(t *testing.T) {
	c := cluster()
	c.Speed = 4
	out := play(t, c, 1, func(int) []outside.Event { return []outside.Event{{Do: outside.Step, Spent: 2, Stated: 3}} })
	near(t, "the step", out[0].Steps[0], 3.5)
	c.Speed = math.NaN()
	if _, err := c.Play(t.Context(), nil); err == nil {
		t.Error("no speed is taken")
	}
}

// training is a rank that asks for the time.
func training(rank int) []outside.Event {
	return []outside.Event{
		{Do: outside.Broadcast, ID: 1, Bytes: 4000, Group: []int{0, 1, 2}}, {Do: outside.Wait, ID: 1},
		{Do: outside.AllReduce, ID: 2, Bytes: 40_000, Width: 4, Spent: 0.1 + 0.01*float64(rank)}, {Do: outside.Wait, ID: 2, Spent: 0.02},
		{Do: outside.Step}, {Do: outside.Now}, {Do: outside.End, Spent: 0.1},
	}
}

// Processes call over a socket, in any order, and what they did can be played again.
func TestProcesses(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	const ranks = 3
	told := make(chan string, ranks)
	for r := range ranks {
		go func() {
			c, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				told <- err.Error()
				return
			}
			defer c.Close()
			enc := json.NewEncoder(c)
			enc.Encode(outside.Event{Do: outside.Hello, Rank: r, World: ranks})
			for _, e := range training(r) {
				enc.Encode(e)
			}
			answer, _ := io.ReadAll(c)
			told <- string(answer)
		}()
	}
	var record bytes.Buffer
	sources, all, err := outside.Accept(t.Context(), l, &record)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cluster().Play(t.Context(), sources)
	all.Close()
	l.Close()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the step", out[0].Steps[0], out[0].Seconds-0.1)
	for range ranks {
		var at float64
		if s := <-told; !strings.HasSuffix(s, "\n") {
			t.Errorf("told %q", s)
		} else if fmt.Sscan(s, &at); math.Abs(at-out[0].Steps[0]) > 0.01 {
			t.Errorf("told %v; the step ended at %v", at, out[0].Steps[0])
		}
	}
	again, err := outside.Recorded(bytes.NewReader(record.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	second, err := cluster().Play(t.Context(), again)
	if err != nil || !reflect.DeepEqual(out, second) {
		t.Errorf("played again: %+v, %v; the first time %+v", second, err, out)
	}
	slow := cluster()
	slow.Net.Network = &sim.Fair{Bandwidth: bandwidth / 10}
	again, _ = outside.Recorded(bytes.NewReader(record.Bytes()))
	if third, err := slow.Play(t.Context(), again); err != nil || third[0].Seconds <= out[0].Seconds {
		t.Errorf("on a tenth of the network: %v s, %v; on all of it %v s", third[0].Seconds, err, out[0].Seconds)
	}
}

// served plays ranks that say something to a listener each.
func served(t *testing.T, serve func(path string)) ([]outside.Rank, error) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serve(l.Addr().String())
	sources, all, err := outside.Accept(t.Context(), l, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	return cluster().Play(t.Context(), sources)
}

// A rank that is far ahead does not wait until its events are played: a rank behind it may
// need it.
func TestAhead(t *testing.T) {
	ahead := make(chan struct{})
	out, err := served(t, func(path string) {
		for rank := range 2 {
			go func() {
				c, err := net.Dial("unix", path)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				fmt.Fprintf(c, `{"do":"hello","rank":%d,"world":2}`+"\n", rank)
				if rank == 0 {
					<-ahead
				}
				for range 4000 { // more than a socket holds
					fmt.Fprintf(c, `{"do":"step","spent":0.001%s}`+"\n", strings.Repeat("0", 200))
				}
				if rank == 1 {
					close(ahead)
				}
				fmt.Fprintln(c, `{"do":"end"}`)
				io.Copy(io.Discard, c)
			}()
		}
	})
	if err != nil || len(out[0].Steps) != 4000 {
		t.Errorf("%v, %v", out, err)
	}
}

// Whoever calls wrongly is told what is wrong, and nothing waits for ever.
func TestCallers(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"nonsense\n", "is no event"},
		{`{"do":"hello","rank":2,"world":2}` + "\n", "rank 2 of 2"},
		{`{"do":"step"}` + "\n", "begins with"},
		{`{"do":"hello","rank":0,"world":2}` + "\n" + `{"do":"hello","rank":0,"world":2}` + "\n", "two processes are rank 0"},
		{`{"do":"hello","rank":0,"world":2}` + "\n" + `{"do":"hello","rank":0,"world":3}` + "\n", "of a world of 3"},
		{strings.Repeat("x", 1<<17), "too long"},
	} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		calls := strings.SplitAfter(c.says, "\n")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, s := range calls {
				if s == "" {
					continue
				}
				if n, err := net.Dial("unix", l.Addr().String()); err == nil {
					defer n.Close()
					io.WriteString(n, s)
				}
			}
		}()
		_, _, err = outside.Accept(t.Context(), l, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v; want %q", c.says, err, c.want)
		}
		l.Close()
		<-done
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, _, err := outside.Accept(ctx, l, nil); !errors.Is(err, why) {
		t.Errorf("of a context that has ended: %v", err)
	}
}

// What ranks cannot do ends the run with a reason.
func TestMistakes(t *testing.T) {
	one := func(events ...outside.Event) []outside.Source {
		return []outside.Source{&script{events: events}, &script{events: []outside.Event{{Do: outside.End}}}}
	}
	for _, c := range []struct {
		what    string
		sources []outside.Source
		want    string
	}{
		{"a process that dies", one(), "ended without saying so"},
		{"a wait for nothing", one(outside.Event{Do: outside.Wait, ID: 7}, outside.Event{Do: outside.End}), "rank 0"},
		{"a collective that one rank makes", one(outside.Event{Do: outside.AllReduce, ID: 1, Bytes: 4, Width: 4}, outside.Event{Do: outside.Wait, ID: 1}), "rank 1 is gone"},
		{"a group of others", one(outside.Event{Do: outside.Barrier, ID: 1, Group: []int{1}}), "is not of group"},
		{"two hellos", one(outside.Event{Do: outside.Hello, World: 2}), "hello twice"},
	} {
		_, err := cluster().Play(t.Context(), c.sources)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.what, err, c.want)
		}
	}
	for _, s := range []string{
		`{"do":"dance"}`, `{"do":"send","peer":9}`, `{"do":"send","peer":-1}`, `{"do":"all_reduce","bytes":-4}`, `{"do":"all_reduce","bytes":5,"width":4}`,
		`{"do":"step","spent":-1}`, `{"do":"step","spent":1e99}`, `{"do":"barrier","group":[0,0]}`, `{"do":"barrier","group":[0,3]}`, `{"do":"broadcast","group":[0,1],"peer":2}`,
		`{"do":"wait","id":-1}`, `{"do":"send","group":[1,2]}`, `{"do":"recv","tag":99999999}`, `{"do":"step","surprise":1}`, `{`, ``,
	} {
		if e, err := outside.ParseEvent([]byte(s), 3); err == nil {
			t.Errorf("%s is taken: %+v", s, e)
		}
	}
	for _, s := range []string{"", "{}", `{"from":0,"event":{"do":"step"}}`, `{"from":5,"event":{"do":"hello","world":2}}`,
		`{"from":0,"event":{"do":"hello","world":2}}` + "\n" + `{"from":0,"event":{"do":"hello","world":3}}`} {
		if _, err := outside.Recorded(strings.NewReader(s)); err == nil {
			t.Errorf("record %q is taken", s)
		}
	}
}

var many = regexp.MustCompile(`[0-9]{7}`)

// Whatever is read, it is refused or played to an end.
func FuzzRecorded(f *testing.F) {
	var b bytes.Buffer
	fmt.Fprintln(&b, `{"from":0,"event":{"do":"hello","world":3}}`)
	for r := range 3 {
		for _, e := range training(r) {
			if e.Do != outside.Now {
				line, _ := json.Marshal(e)
				fmt.Fprintf(&b, `{"from":%d,"event":%s}`+"\n", r, line)
			}
		}
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"from":0,"event":{"do":"hello","world":1}}` + "\n" + `{"from":0,"event":{"do":"all_reduce","id":3,"bytes":8}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		sources, err := outside.Recorded(bytes.NewReader(b))
		if err != nil || len(sources) > 8 || many.Match(b) { // so many bytes take their time
			return
		}
		_, _ = cluster().Play(t.Context(), sources)
	})
}
