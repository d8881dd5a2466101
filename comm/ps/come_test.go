package ps_test

import (
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
)

// A worker that comes begins at the clock of the slowest member, also if it was ahead of it
// before it left; where nobody else is there it keeps its own.
func TestComesAtTheSlowestClock(t *testing.T) {
	c, _ := core(t, "ssp(slack=9)", 3)
	push := func(w int, inc uint32, n int) {
		for seq := range n {
			rs, err := c.Push(comm.NewFrame(comm.Header{Kind: comm.Gradient, From: int32(w), Incarnation: inc, Seq: uint64(seq)}, comm.NewBuffer(0)))
			if err != nil || len(rs) == 0 || rs[0].Cause != "" {
				t.Fatalf("push %d of worker %d: %v, %v", seq, w, rs, err)
			}
		}
	}
	push(0, 0, 5)
	push(1, 0, 2)
	push(2, 0, 3)
	if _, err := c.Leave(0); err != nil {
		t.Fatal(err)
	}
	c.Come(0, 1)
	if n := c.Clock(0); n != 2 || c.Received()[0] != 0 {
		t.Errorf("it begins at clock %d, with %d pushes of its process, want 2 and 0", n, c.Received()[0])
	}
	push(0, 1, 1)
	for w := range 3 {
		if _, err := c.Leave(w); err != nil {
			t.Fatal(err)
		}
	}
	c.Come(2, 1)
	if n := c.Clock(2); n != 3 {
		t.Errorf("alone it begins at clock %d, want its own, 3", n)
	}
}

// What is held of a worker that died, and can be decoded no more, is rejected, and the
// others' is applied without it.
func TestForgo(t *testing.T) {
	c, _ := core(t, "softsync(n=1)", 3) // three gradients an update
	call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 0, 0, "a")) })
	call(t, func() ([]ps.Reply, error) { return c.Push(push(1, 0, 0, "b")) })
	if of := c.Forgo(1); len(of) != 1 || of[0].From != 1 || c.Causes()[ps.CauseForgone] != 1 {
		t.Errorf("%v is forgone, causes %v", of, c.Causes())
	}
	for seq := range uint64(2) {
		if c.Version() != 0 {
			t.Fatalf("an update of %d gradients", 1+seq)
		}
		call(t, func() ([]ps.Reply, error) { return c.Push(push(2, seq, 0, "c")) })
	}
	if l := c.Ledger(); c.Version() != 1 || l != (ps.Ledger{Applied: 3, Rejected: 1}) {
		t.Errorf("version %d, ledger %+v", c.Version(), l)
	}
}
