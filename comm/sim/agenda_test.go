package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is made when, events come in order of time, then of being made.
func TestAgendaKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		var all []event // in the order made
		now := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			if rapid.Bool().Draw(t, "take") && len(all) > 0 {
				want := slices.MinFunc(all, func(x, y event) int {
					if x.before(&y) {
						return -1
					}
					return 1
				})
				if n := a.next(); n == nil || *n != want {
					t.Fatalf("next is %v, want %v", n, want)
				}
				got := a.take()
				if got != want {
					t.Fatalf("%v came before %v", got, want)
				}
				now = got.at
				all = slices.DeleteFunc(all, func(e event) bool { return e.seq == got.seq })
				continue
			}
			e := event{at: now}
			kind := rapid.IntRange(atOnce, anyTime).Draw(t, "kind")
			if kind != atOnce {
				e.at += time.Duration(rapid.IntRange(0, 5).Draw(t, "delay"))
			}
			a.add(kind, e)
			e.seq = a.seq
			all = append(all, e)
		}
		for range all {
			a.take()
		}
		if a.next() != nil {
			t.Fatal("something is left")
		}
	})
}

// The heap of streams against sorting, whatever moves and leaves.
func TestFinishesKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q finishes
		var all []*stream
		order := uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			what := rapid.IntRange(0, 3).Draw(t, "what")
			if len(all) == 0 || what < 2 {
				order++
				s := &stream{order: order, finish: time.Duration(rapid.IntRange(0, 20).Draw(t, "finish"))}
				q.add(s)
				all = append(all, s)
			} else if s := rapid.SampledFrom(all).Draw(t, "stream"); what == 2 {
				s.finish = time.Duration(rapid.IntRange(0, 20).Draw(t, "new finish"))
				q.moved(s)
			} else {
				q.remove(s)
				all = slices.DeleteFunc(all, func(o *stream) bool { return o == s })
			}
			for i, f := range q {
				if f.stream.place != i || f.at != f.stream.finish {
					t.Fatalf("entry %d: %v, its stream is at %d and finishes at %v", i, f, f.stream.place, f.stream.finish)
				}
				if q[0].order != f.order && !q[0].before(&f) {
					t.Fatalf("%v is behind %v", f, q[0])
				}
			}
			if len(q) != len(all) {
				t.Fatalf("%d entries of %d streams", len(q), len(all))
			}
		}
	})
}
