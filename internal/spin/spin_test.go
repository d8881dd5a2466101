package spin

import (
	"testing"
	"time"
)

// Waits on a machine of its own look some times before they sleep. Beside processes that
// compute, where a yield takes their turn, hardly any wait yields; when they have gone it
// does again.
func TestBesideProcessesThatCompute(t *testing.T) {
	var clock, turn time.Duration
	yields := 0
	s := Spin{Patience: Roomy, now: func() time.Duration { return clock }, yield: func() { yields++; clock += turn }}
	wait := func(n int) (made int) {
		yields = 0
		for range n {
			for looks := 0; s.Again(looks); looks++ {
			}
		}
		return yields
	}
	turn = time.Microsecond
	if got := wait(10); got != 10*Roomy {
		t.Errorf("%d yields in ten waits with cores to spare, want %d each", got, Roomy)
	}
	turn = 20 * time.Millisecond
	if got := wait(3000); got > 10 {
		t.Errorf("%d yields in 3000 waits beside others: each costs their turn", got)
	}
	turn = time.Microsecond
	if wait(2 * longest); wait(10) != 10*Roomy {
		t.Error("cores to spare are not noticed again")
	}
}
