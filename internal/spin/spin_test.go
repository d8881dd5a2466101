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

// Where each process has a core, what is waited for comes while nobody yields. Where it
// only comes after a yield, looks before that are given up for ever longer.
func TestLooksBeforeAYield(t *testing.T) {
	yields := 0
	s := Spin{Bare: Bare, Patience: Roomy, now: func() time.Duration { return 0 }, yield: func() { yields++ }}
	wait := func(n int, over func(looks int) bool) (bare int) {
		yields = 0
		for range n {
			for looks := 0; !over(looks) && s.Again(looks); looks++ {
				if yields == 0 {
					bare++
				}
			}
		}
		return bare
	}
	if wait(100, func(looks int) bool { return looks == Bare/2 }); yields > 0 {
		t.Errorf("%d yields where it comes by itself", yields)
	}
	shared := func(int) bool { defer func() { yields = 0 }(); return yields > 0 }
	if bare := wait(3000, shared); bare > 20*Bare {
		t.Errorf("%d looks without a yield in 3000 waits for who needs the core", bare)
	}
	if wait(2*longest, func(looks int) bool { return looks == 1 }); s.bare.pause > 1 {
		t.Error("a core of its own is not noticed again")
	}
}
