package ps_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/staleness"
)

func TestPlacementsCoverEverything(t *testing.T) {
	for _, name := range ps.Placements.Names() {
		p, _ := ps.Placements.Proto(name)
		rapid.Check(t, func(t *rapid.T) {
			var tensors []ps.Tensor
			for range rapid.IntRange(0, 20).Draw(t, "tensors") {
				row := rapid.IntRange(0, 12).Draw(t, "row")
				tensors = append(tensors, ps.Tensor{Len: max(1, row) * rapid.IntRange(0, 50).Draw(t, "rows"), Row: row})
			}
			if err := ps.CheckPlacement(p, tensors, rapid.IntRange(1, 9).Draw(t, "shards")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestBalancedIsBalanced(t *testing.T) {
	for s, pieces := range (ps.Balanced{}).Place(sized(100, 1, 1, 7), 4) {
		n := 0
		for _, p := range pieces {
			n += p.Len
		}
		if n != 27 && n != 28 {
			t.Errorf("shard %d holds %d of 109 elements", s, n)
		}
	}
}

// sized are tensors that may be cut anywhere.
func sized(sizes ...int) (out []ps.Tensor) {
	for _, n := range sizes {
		out = append(out, ps.Tensor{Len: n})
	}
	return out
}

// A shard ends within half a row of where it would if rows could be cut; where
// they can be, shards are what they always were.
func TestBalancedToARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tensors []ps.Tensor
		total, widest := 0, 1
		rows := rapid.Bool().Draw(t, "rows")
		for range rapid.IntRange(1, 12).Draw(t, "tensors") {
			row := 1
			if rows {
				row = rapid.IntRange(1, 60).Draw(t, "row")
			}
			n := row * rapid.IntRange(0, 40).Draw(t, "n")
			tensors, total, widest = append(tensors, ps.Tensor{Len: n, Row: row}), total+n, max(widest, row)
		}
		shards := rapid.IntRange(1, 9).Draw(t, "shards")
		sum, end := 0, 0
		for s, pieces := range (ps.Balanced{}).Place(tensors, shards) {
			for _, p := range pieces {
				sum += p.Len
			}
			end += total / shards
			if s < total%shards {
				end++
			}
			if 2*max(sum-end, end-sum) > widest && !(widest == 1 && sum == end) {
				t.Fatalf("%v: shards up to %d of %d hold %d, want %d within half of %d", tensors, s, shards, sum, end, widest)
			}
			if widest == 1 && sum != end {
				t.Fatalf("%v: shards up to %d of %d hold %d, want %d", tensors, s, shards, sum, end)
			}
		}
	})
	// A row wider than a share leaves shards with nothing, and none is cut.
	got := (ps.Balanced{}).Place([]ps.Tensor{{Len: 2000, Row: 1000}}, 4)
	if fmt.Sprint(got) != "[[{0 0 1000}] [] [{0 1000 1000}] []]" && fmt.Sprint(got) != "[[] [{0 0 1000}] [] [{0 1000 1000}]]" && fmt.Sprint(got) != "[[{0 0 1000}] [] [] [{0 1000 1000}]]" {
		t.Errorf("two rows on four shards: %v", got)
	}
}

// Even pieces hold whole rows and no more than they may, or one row.
func TestEven(t *testing.T) {
	for _, c := range []struct {
		tensor ps.Tensor
		most   int
		want   string
	}{
		{ps.Tensor{Len: 10}, 4, "[{7 0 3} {7 3 3} {7 6 4}]"},
		{ps.Tensor{Len: 60, Row: 10}, 25, "[{7 0 20} {7 20 20} {7 40 20}]"},
		{ps.Tensor{Len: 60, Row: 10}, 3, "[{7 0 10} {7 10 10} {7 20 10} {7 30 10} {7 40 10} {7 50 10}]"},
		{ps.Tensor{Len: 60, Row: 10}, 60, "[{7 0 60}]"},
		{ps.Tensor{}, 4, "[{7 0 0}]"},
	} {
		if got := fmt.Sprint(c.tensor.Even(7, c.most)); got != c.want {
			t.Errorf("%+v in pieces of %d: %s, want %s", c.tensor, c.most, got, c.want)
		}
	}
}

// log is a store that writes down what it is told.
type log struct {
	lines []string
	acc   []string
}

func (l *log) Reset() { l.acc = nil }
func (l *log) Add(f comm.Frame, w float64, _ staleness.Past) error {
	if len(f.Body) > 0 && f.Body[0] == 'x' {
		return errors.New("corrupt")
	}
	l.acc = append(l.acc, fmt.Sprintf("%d@%d*%.2g", f.Header.From, f.Header.Version, w))
	return nil
}
func (l *log) Step(u ps.Update) error {
	l.lines = append(l.lines, fmt.Sprintf("v%d %v", u.Version, l.acc))
	return nil
}

func push(w int, seq, version uint64, body string) comm.Frame {
	b := comm.NewBuffer(len(body))
	copy(b.B, body)
	return comm.NewFrame(comm.Header{From: int32(w), Seq: seq, Step: seq, Version: version}, b)
}

func core(t *testing.T, spec string, workers int) (*ps.Core, *log) {
	p, err := staleness.Policies.MustParse(spec).New(workers)
	if err != nil {
		t.Fatal(err)
	}
	l := &log{}
	return ps.New(workers, 100, p, staleness.None{}, l), l
}

func must(t *testing.T, rs []ps.Reply, err error) []ps.Reply {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func workers(rs []ps.Reply) (ws []int) {
	for _, r := range rs {
		ws = append(ws, r.Worker)
	}
	return ws
}

func call(t *testing.T, f func() ([]ps.Reply, error)) []ps.Reply {
	t.Helper()
	rs, err := f()
	return must(t, rs, err)
}

// A barrier adds in rank order, whatever the order of arrival.
func TestBarrierOrder(t *testing.T) {
	c, l := core(t, "bsp", 3)
	for _, w := range []int{2, 0} {
		if rs := call(t, func() ([]ps.Reply, error) { return c.Push(push(w, 0, 0, "")) }); len(rs) != 0 {
			t.Errorf("answered %v before the barrier", rs)
		}
	}
	rs := call(t, func() ([]ps.Reply, error) { return c.Push(push(1, 0, 0, "")) })
	if !slices.Equal(workers(rs), []int{0, 1, 2}) || !slices.Equal(l.lines, []string{"v0 [0@0*0.33 1@0*0.33 2@0*0.33]"}) {
		t.Errorf("replies %v, log %v", rs, l.lines)
	}
}

// A gradient is applied at most once.
func TestF8DuplicatesAreRejected(t *testing.T) {
	c, l := core(t, "asp", 2)
	call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 0, 0, "")) })
	rs := call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 0, 0, "")) })
	if len(rs) != 1 || rs[0].Kind != ps.Rejected || len(l.lines) != 1 {
		t.Errorf("replies %v, log %v", rs, l.lines)
	}
	stale := push(1, 0, 0, "")
	stale.Header.Incarnation = 7
	rs = call(t, func() ([]ps.Reply, error) { return c.Push(stale) })
	if rs[0].Kind != ps.Rejected {
		t.Errorf("another incarnation's push: %v", rs)
	}
	rs = call(t, func() ([]ps.Reply, error) { return c.Push(push(1, 0, 99, "")) })
	if rs[0].Kind != ps.Rejected {
		t.Errorf("a push from the future: %v", rs)
	}
	if l := c.Ledger(); l.Applied != 1 || l.Rejected != 3 {
		t.Errorf("ledger %+v", l)
	}
	if _, err := c.Push(push(5, 0, 0, "")); err == nil {
		t.Error("a push from no worker was taken")
	}
}

// What cannot be decoded is rejected and the update made of the others.
func TestCorruptPayload(t *testing.T) {
	c, l := core(t, "bsp", 2)
	call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 0, 0, "x")) })
	rs := call(t, func() ([]ps.Reply, error) { return c.Push(push(1, 0, 0, "")) })
	if !slices.Equal(l.lines, []string{"v0 [1@0*1]"}) {
		t.Errorf("log %v", l.lines)
	}
	if len(rs) != 2 || rs[0].Kind != ps.Rejected || rs[0].Worker != 0 || rs[1].Kind != ps.Answer {
		t.Errorf("replies %v", rs)
	}
	a, la := core(t, "asp", 1)
	rs = call(t, func() ([]ps.Reply, error) { return a.Push(push(0, 0, 0, "x")) })
	if len(rs) != 1 || rs[0].Kind != ps.Rejected || len(la.lines) != 0 || a.Version() != 0 {
		t.Errorf("replies %v, log %v", rs, la.lines)
	}
}

// A barrier does not wait for a worker that has left.
func TestLeaveReleases(t *testing.T) {
	c, l := core(t, "bsp", 3)
	call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 0, 0, "")) })
	call(t, func() ([]ps.Reply, error) { return c.Push(push(1, 0, 0, "")) })
	rs := call(t, func() ([]ps.Reply, error) { return c.Leave(2) })
	if !slices.Equal(workers(rs), []int{0, 1}) || len(l.lines) != 1 {
		t.Errorf("replies %v, log %v", rs, l.lines)
	}
	rs = call(t, func() ([]ps.Reply, error) { return c.Push(push(2, 0, 0, "")) })
	if rs[0].Kind != ps.Rejected {
		t.Errorf("a push after leaving: %v", rs)
	}
}

// Whatever arrives in whatever order, the books balance and delays are counted,
// and a core restored from its state goes on alike.
func TestLedgerAndState(t *testing.T) {
	for _, spec := range []string{"bsp", "asp", "ssp(slack=1)", "softsync(n=2)"} {
		rapid.Check(t, func(rt *rapid.T) {
			const n = 4
			c, l := core(t, spec, n)
			d, ld := core(t, spec, n)
			seq := make([]uint64, n)
			held := make([]uint64, n)
			idle := []int{0, 1, 2, 3}
			pushes := uint64(0)
			for i := 0; i < 40 && len(idle) > 0; i++ {
				k := rapid.IntRange(0, len(idle)-1).Draw(rt, "who")
				w := idle[k]
				idle = slices.Delete(idle, k, k+1)
				rs := call(t, func() ([]ps.Reply, error) { return c.Push(push(w, seq[w], held[w], "")) })
				seq[w]++
				pushes++
				for _, r := range rs {
					held[r.Worker] = uint64(c.Version())
					idle = append(idle, r.Worker)
				}
			}
			got := c.Ledger()
			if got.Applied+got.Rejected+got.Held != pushes {
				rt.Fatalf("%s: %d pushes, ledger %+v", spec, pushes, got)
			}
			sum := uint64(0)
			for _, k := range c.Delays() {
				sum += k
			}
			if sum != got.Applied {
				rt.Fatalf("%s: %d delays counted, %d applied", spec, sum, got.Applied)
			}
			if len(idle) < n {
				return // a state is taken only while nobody waits
			}
			b, err := c.AppendBinary(nil)
			if err != nil {
				rt.Fatal(err)
			}
			if err := d.UnmarshalBinary(b); err != nil {
				rt.Fatal(err)
			}
			l.lines = nil
			for w := 0; w < n; w++ {
				call(t, func() ([]ps.Reply, error) { return c.Push(push(w, seq[w], held[w], "")) })
				call(t, func() ([]ps.Reply, error) { return d.Push(push(w, seq[w], held[w], "")) })
			}
			if !slices.Equal(l.lines, ld.lines) || c.Ledger() != d.Ledger() {
				rt.Fatalf("%s: %v and %v", spec, l.lines, ld.lines)
			}
		})
	}
}

func sum(from int, of ...comm.Frame) (comm.Frame, []comm.Header) {
	var headers []comm.Header
	for _, f := range of {
		headers = append(headers, f.Header)
	}
	return comm.NewFrame(comm.Header{From: int32(from)}, comm.NewBuffer(0)), headers
}

// A sum counts as what it is made of: to the policy, by staleness, in the ledger
// and in the mean; it is applied as a whole, and survives in the state.
func TestSums(t *testing.T) {
	c, l := core(t, "kbatchasync(k=3)", 4)
	call(t, func() ([]ps.Reply, error) { return c.PushSum(sum(0, push(0, 0, 0, ""), push(1, 0, 0, ""))) })
	if len(l.lines) != 0 || c.Ledger().Held != 2 {
		t.Fatalf("log %v, ledger %+v", l.lines, c.Ledger())
	}
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, ld := core(t, "kbatchasync(k=3)", 4)
	if err := d.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		c *ps.Core
		l *log
	}{{c, l}, {d, ld}} {
		if rs := call(t, func() ([]ps.Reply, error) { return x.c.PushSum(sum(3, push(2, 0, 0, ""), push(3, 0, 0, ""))) }); len(rs) != 0 {
			t.Errorf("replies %v", rs)
		}
		call(t, func() ([]ps.Reply, error) {
			return x.c.PushSum(sum(0, push(1, 1, 0, ""), push(0, 1, 1, ""), push(1, 2, 1, "")))
		})
		// The sums of two are in one update of four, each entry weighing a quarter.
		if !slices.Equal(x.l.lines, []string{"v0 [0@0*0.25 3@0*0.25]", "v1 [0@0*0.33]"}) {
			t.Errorf("log %v", x.l.lines)
		}
		if g := x.c.Ledger(); g.Applied != 7 || g.Held != 0 || !slices.Equal(x.c.Delays(), []uint64{6, 1}) || x.c.Taken() != 7 {
			t.Errorf("ledger %+v, delays %v, taken %d", g, x.c.Delays(), x.c.Taken())
		}
	}
	for _, bad := range [][]comm.Frame{{}, {push(9, 0, 0, "")}, {push(0, 0, 0, "")}, {push(2, 1, 99, "")}} {
		f, of := sum(0, bad...)
		if _, err := c.PushSum(f, of); err == nil {
			t.Errorf("%v was taken", of)
		}
	}
}

// A sum that comes after the last update counts as all its gradients: rejected, with the
// cause, and none missing from the ledger.
func TestSumsAfterTheEnd(t *testing.T) {
	p, _ := staleness.ASP{}.New(3)
	c := ps.New(3, 1, p, staleness.None{}, &log{})
	call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 0, 0, "")) })
	if !c.Done() {
		t.Fatal("one update of one, and the run is not over")
	}
	call(t, func() ([]ps.Reply, error) {
		return c.PushSum(sum(0, push(0, 1, 1, ""), push(1, 0, 0, ""), push(2, 0, 0, "")))
	})
	call(t, func() ([]ps.Reply, error) { return c.Push(push(1, 1, 0, "")) })
	if g := c.Ledger(); g.Applied != 1 || g.Rejected != 4 || g.Held != 0 {
		t.Errorf("ledger %+v, want 1 gradient applied and 4 rejected", g)
	}
	if causes := c.Causes(); causes["the run is over"] != 4 {
		t.Errorf("causes %v, want 4 gradients for which the run was over", causes)
	}
}

// A sum is scaled by the mean of its gradients' corrections.
func TestSumsAreCorrectedByTheMean(t *testing.T) {
	p, _ := staleness.ASP{}.New(2)
	l := &log{}
	c := ps.New(2, 100, p, staleness.AlphaTau{}, l)
	for seq := range uint64(4) {
		call(t, func() ([]ps.Reply, error) { return c.Push(push(0, seq, seq, "")) })
	}
	call(t, func() ([]ps.Reply, error) { return c.PushSum(sum(0, push(0, 4, 4, ""), push(1, 0, 0, ""))) })
	if got := l.lines[4]; got != "v4 [0@0*0.31]" { // (1 + 1/4)/2 over two gradients
		t.Errorf("log %v", got)
	}
}

func FuzzState(f *testing.F) {
	p, _ := staleness.BSP{}.New(2)
	b, _ := ps.New(2, 10, p, staleness.None{}, &log{}).AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = ps.New(2, 10, p, staleness.None{}, &log{}).UnmarshalBinary(b)
	})
}
