package par

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// settled waits until no goroutine is counted at work: helpers sign off after
// the caller has returned.
func settled(t *testing.T) {
	t.Helper()
	for range 2000 {
		if running.Load() == 0 && board.posted.Load() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d goroutines still counted at work, %d runs posted", running.Load(), board.posted.Load())
}

func withThreads(t testing.TB, n int) {
	SetThreads(n)
	t.Cleanup(func() { SetThreads(0) })
}

func TestEveryPieceOnce(t *testing.T) {
	defer SetThreads(0)
	var team Team
	rapid.Check(t, func(t *rapid.T) {
		SetThreads(rapid.IntRange(1, 9).Draw(t, "limit"))
		pieces, threads := rapid.IntRange(0, 300).Draw(t, "pieces"), rapid.IntRange(-1, 9).Draw(t, "threads")
		calls := make([]atomic.Int32, pieces)
		team.Run(pieces, threads, func(i, slot int) {
			calls[i].Add(1)
			if slot < 0 || slot >= max(threads, 1) || slot >= Threads() {
				t.Errorf("slot %d of %d threads", slot, threads)
			}
		})
		for i := range calls {
			if n := calls[i].Load(); n != 1 {
				t.Fatalf("piece %d run %d times", i, n)
			}
		}
	})
	settled(t)
}

func TestSlotsAreExclusiveAndBounded(t *testing.T) {
	withThreads(t, 4)
	var team Team
	var atWork, most atomic.Int32
	var busy [4]atomic.Bool
	for range 200 {
		team.Run(40, 4, func(_, slot int) {
			if busy[slot].Swap(true) {
				t.Errorf("slot %d taken twice", slot)
			}
			n := atWork.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			runtime.Gosched()
			atWork.Add(-1)
			busy[slot].Store(false)
		})
	}
	if most.Load() > 4 || most.Load() < 2 {
		t.Errorf("%d goroutines at work at once", most.Load())
	}
}

// Serial runs keep the order of the pieces and the goroutine.
func TestSerial(t *testing.T) {
	for _, x := range []struct{ limit, threads int }{{1, 5}, {4, 1}, {4, 0}} {
		withThreads(t, x.limit)
		var order []int
		new(Team).Run(5, x.threads, func(i, slot int) { order = append(order, i+10*slot) })
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			t.Errorf("%+v: %v", x, order)
		}
	}
}

// Pieces may run teams, their own one too, to any depth.
func TestNested(t *testing.T) {
	withThreads(t, 3)
	var team Team
	var n atomic.Int32
	var deep func(depth int)
	deep = func(depth int) {
		team.Run(4, 3, func(int, int) {
			if depth == 0 {
				n.Add(1)
				return
			}
			deep(depth - 1)
		})
	}
	for range 20 {
		deep(3)
	}
	if n.Load() != 20*256 {
		t.Errorf("%d leaves, want %d", n.Load(), 20*256)
	}
	settled(t)
}

func TestManyCallers(t *testing.T) {
	withThreads(t, 2)
	var team Team
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				sum := make([]int, 50)
				team.Run(50, 2, func(i, _ int) { sum[i] += i })
				for i, s := range sum {
					if s != i {
						t.Errorf("piece %d left %d", i, s)
					}
				}
			}
		})
	}
	wg.Wait()
	settled(t)
}

var errBad = errors.New("bad piece")

// catch runs f and returns what it panicked with.
func catch(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestPanics(t *testing.T) {
	withThreads(t, 3)
	var team Team
	var here, there int
	for range 300 {
		var bad atomic.Int32
		bad.Store(-1)
		var inside atomic.Int32
		v := catch(func() {
			team.Run(64, 3, func(i, slot int) {
				inside.Add(1)
				defer inside.Add(-1)
				time.Sleep(time.Microsecond)
				if i == 20 {
					bad.Store(int32(slot))
					panic(errBad)
				}
			})
		})
		if inside.Load() != 0 {
			t.Fatal("Run came back while a piece was running")
		}
		if bad.Load() == 0 {
			here++
			if v != errBad {
				t.Fatalf("caller's own panic came out as %v", v)
			}
			continue
		}
		there++
		p, ok := v.(*Panic)
		if !ok || !errors.Is(p, errBad) || !strings.Contains(p.Error(), "par_test.go") {
			t.Fatalf("helper's panic came out as %v", v)
		}
	}
	t.Logf("%d panics on the caller, %d on helpers", here, there)
	settled(t)
	TestManyCallers(t) // the pool survived
}

// A piece that ends its goroutine is reported, and the pool refills.
func TestGoexit(t *testing.T) {
	withThreads(t, 2)
	var team Team
	for range 20 {
		var helped atomic.Bool
		v := catch(func() {
			team.Run(1000, 2, func(_, slot int) {
				if slot != 0 {
					helped.Store(true)
					runtime.Goexit()
				}
				time.Sleep(10 * time.Microsecond)
			})
		})
		if p, ok := v.(*Panic); helped.Load() != ok || ok && !strings.Contains(p.Error(), "Goexit") {
			t.Fatalf("helped=%v, Run panicked with %v", helped.Load(), v)
		}
	}
	settled(t)
}

func TestNoAllocation(t *testing.T) {
	withThreads(t, 2)
	var team Team
	var x [64]int
	fn := func(i, _ int) { x[i]++ }
	if n := testing.AllocsPerRun(1000, func() { team.Run(len(x), 2, fn) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func BenchmarkRun(b *testing.B) {
	defer SetThreads(0)
	SetThreads(2)
	var team Team
	fn := func(int, int) {}
	for b.Loop() {
		team.Run(8, 2, fn)
	}
}
