package sim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
)

// An inbox gives what a search through a list would.
func TestInbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b inbox
		var want []queued
		var at []int // of those in want: what was pushed before
		for n := range rapid.IntRange(0, 200).Draw(t, "moves") {
			from, tag := rapid.IntRange(comm.AnyRank, 3).Draw(t, "from"), comm.Tag(rapid.IntRange(0, 2).Draw(t, "tag"))
			if rapid.Bool().Draw(t, "push") && from != comm.AnyRank {
				var q queued
				q.frame.Header.From, q.frame.Header.Tag, q.frame.Header.Seq = int32(from), tag, uint64(n)
				b.push(q)
				want, at = append(want, q), append(at, n)
				continue
			}
			if tag == 0 {
				tag = comm.AnyTag
			}
			found, has := -1, false
			for i, q := range want {
				h := q.frame.Header
				same := tag == comm.AnyTag || h.Tag == tag
				has = has || h.Tag == tag
				if found < 0 && same && (from == comm.AnyRank || h.From == int32(from)) {
					found = i
				}
			}
			if b.has(tag) != has {
				t.Fatalf("has tag %d: %v", tag, !has)
			}
			q, ok := b.take(from, tag)
			if ok != (found >= 0) {
				t.Fatalf("took %v, want %v", ok, !ok)
			}
			if ok {
				if int(q.frame.Header.Seq) != at[found] {
					t.Fatalf("took number %d, want %d", q.frame.Header.Seq, at[found])
				}
				want = append(want[:found:found], want[found+1:]...)
				at = append(at[:found:found], at[found+1:]...)
			}
		}
		if len(b.slots) > 200 || len(b.slots)-len(b.free) != len(want) {
			t.Fatalf("%d slots, %d free, %d frames", len(b.slots), len(b.free), len(want))
		}
	})
}
