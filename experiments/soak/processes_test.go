package soak

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/sgd/train"
)

// A leg's deaths are its seed's, within the time given, and who dies comes back.
func TestLegKills(t *testing.T) {
	t.Parallel()
	l, err := NewLeg(3, "server", 16, 100)
	if err != nil || l.Workers != 14 || l.Servers != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	const from, until, every = 5 * time.Second, 10 * time.Minute, 10 * time.Second
	l.Kill(from, until, every)
	twice, struck := 0, map[string]bool{}
	for i := 0; i < len(l.Faults); i += 2 {
		kill, back := l.Faults[i].(nemesis.Kill), l.Faults[i+1].(nemesis.Rejoin)
		struck[kill.Rank] = true
		if kill.At < from || kill.At > until || back.At <= kill.At || back.Rank != kill.Rank {
			t.Errorf("%v, then %v", kill, back)
		}
		if i > 0 && l.Faults[i-2].(nemesis.Kill).At == kill.At {
			twice++
		}
	}
	if n := len(l.Faults) / 2; n < 50 || n > 120 || twice < 5 || len(struck) != l.Workers-1 {
		t.Errorf("%d deaths, %d of them beside another, of %d workers", n, twice, len(struck))
	}
	again := l
	if again.Kill(from, until, every); !reflect.DeepEqual(again, l) {
		t.Error("drawn again they are others")
	}
	again.Seed++
	if again.Kill(from, until, every); reflect.DeepEqual(again.Faults, l.Faults) {
		t.Error("another seed has the same")
	}
	for mode, processes := range map[string]int{"adpsgd": 16, "server": 3, "reduce": 1, "none": 16} {
		if _, err := NewLeg(1, mode, processes, 100); err == nil {
			t.Errorf("%s on %d processes", mode, processes)
		}
	}
}

// The plan that processes came to is what the virtual cluster is told.
func TestLegArgs(t *testing.T) {
	t.Parallel()
	l, err := NewLeg(1, "reduce", 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	members := []train.Membership{
		{Epoch: 1, Workers: []int{0, 1, 2}},
		{Epoch: 2, Step: 10, Workers: []int{0, 2}, Left: []train.Leave{{Worker: 1}}},
		{Epoch: 3, Step: 20, Workers: []int{0, 1, 2}, Joined: []int{1}},
	}
	if text := strings.Join(l.Args(members), " "); !strings.HasSuffix(text, "net=sim device.codec=free faults=leave(rank=w1,before=10)+join(rank=w1,before=20)") {
		t.Error(text)
	}
	if text := strings.Join(l.Args(nil), " "); !strings.Contains(text, "net=grpc") || strings.Contains(text, "leave") {
		t.Error(text)
	}
	if deaths, back := Moves(members); deaths != 1 || back != 1 {
		t.Errorf("%d deaths, %d came back", deaths, back)
	}
	r := &experiments.Result{Steps: 100, Servers: true, Ledger: experiments.Ledger{Sent: 5, Applied: 5}}
	if wrong := l.Judge(r); len(wrong) > 0 {
		t.Error(wrong)
	}
	if r.Steps, r.Ledger.Applied = 99, 4; len(l.Judge(r)) != 2 {
		t.Error(l.Judge(r))
	}
}

// Memory grows where all processes together hold more in the end, or the one that started
// the others does.
func TestMemoryGrows(t *testing.T) {
	t.Parallel()
	flat, grown, observer := Memory{}, Memory{}, Memory{}
	for i := range uint64(9) {
		flat = append(flat, map[int]uint64{Observer: 100, 0: 50 + i%2, 1: 50})
		grown = append(grown, map[int]uint64{Observer: 100, 0: 50 + 10*i, 1: 50})
		observer = append(observer, map[int]uint64{Observer: 100 + 10*i, 0: 500, 1: 500})
	}
	for _, c := range []struct {
		m    Memory
		says string
	}{{flat, ""}, {grown, "all processes"}, {observer, "the observer's process"}, {nil, ""}} {
		if got := c.m.Grows(); (got == "") != (c.says == "") || !strings.HasPrefix(got, c.says) {
			t.Errorf("%q, want %q", got, c.says)
		}
	}
	if first, last := grown.Thirds(func(rank int) bool { return rank == 0 }); first != 60 || last != 120 {
		t.Errorf("%v and %v, want 60 and 120", first, last)
	}
}
