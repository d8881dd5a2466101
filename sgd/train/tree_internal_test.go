package train

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
)

// Every learner hangs on the servers by one path, no node has more children than
// the fan-in, and a relay sits with a learner below it, where no other does.
func TestTreeHoldsEverybody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers, fanin := rapid.IntRange(1, 300).Draw(t, "workers"), rapid.IntRange(2, 9).Draw(t, "fan-in")
		tr := newTree(workers, fanin)
		below := map[int]int{} // learners below each relay
		for w, p := range tr.parent {
			at := w
			for depth := 0; p != servers; depth++ {
				b := tr.relays[p]
				if b == nil || b.rank != p || depth > 9 {
					t.Fatalf("learner %d hangs on rank %d, where no relay is", w, p)
				}
				if !slices.Contains(b.children, at) || w < b.lo || w >= b.hi {
					t.Fatalf("learner %d is below %+v, whose child is not %d", w, *b, at)
				}
				below[p]++
				at, p = p, b.parent
			}
			if !slices.Contains(tr.top, at) {
				t.Fatalf("learner %d ends at %d, the servers' children are %v", w, at, tr.top)
			}
		}
		if len(tr.top) > fanin {
			t.Fatalf("the servers have children %v", tr.top)
		}
		for rank, b := range tr.relays {
			if n := len(b.children); n < 2 || n > fanin || below[rank] != b.hi-b.lo || rank < b.lo || rank >= b.hi {
				t.Fatalf("relay %+v has %d learners below", *b, below[rank])
			}
			for _, c := range b.children { // who a child is must be clear from its rank
				if r := tr.relay(c, rank); r != nil && tr.parent[c] == rank {
					t.Fatalf("%d is both a learner and a relay to %+v", c, *b)
				}
			}
		}
	})
}

func TestRollKeepsWhatASumIsMadeOf(t *testing.T) {
	t.Parallel()
	of := []comm.Header{{From: 3, Seq: 1 << 40, Step: 7, Version: 9, Value: 0.25}, {From: 5, Seq: 2}}
	f := comm.NewFrame(comm.Header{Run: 42, Kind: comm.Gradient}, roll(of))
	got, err := readRoll(nil, f, 3, 6)
	if err != nil || len(got) != 2 || f.Billed != 2*rollEntry {
		t.Fatalf("%v, %v, billed %d", got, err, f.Billed)
	}
	for i, h := range got {
		of[i].Run, of[i].Kind = 42, comm.Gradient
		if h != of[i] {
			t.Errorf("%+v came as %+v", of[i], h)
		}
	}
	if _, err := readRoll(nil, f, 4, 6); err == nil {
		t.Error("a learner who is not below was taken")
	}
}

func FuzzRoll(f *testing.F) {
	f.Add(roll([]comm.Header{{From: 1, Version: 3}}).B)
	f.Fuzz(func(t *testing.T, b []byte) {
		of, err := readRoll(nil, comm.Frame{Body: b}, 0, 4)
		if err == nil && string(roll(of).B) != string(b) {
			t.Errorf("%x came back as %x", b, roll(of).B)
		}
	})
}
