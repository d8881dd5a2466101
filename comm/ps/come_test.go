package ps_test

import (
	"testing"

	"github.com/gradlab/gradlab/comm"
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
