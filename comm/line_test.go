package comm

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// A line takes what a slice would, in the same order, and does not grow beyond what waits.
func TestLine(t *testing.T) {
	t.Parallel()
	var l line
	var want []uint64
	k, next, most := rng.New(1, "line"), uint64(0), 0
	for i := range uint64(20000) {
		switch n := k.IntN(i, 100); {
		case n < 52:
			next++
			l.add(Frame{Header: Header{Seq: next}})
			want = append(want, next)
		case n < 99 && len(want) > 0:
			at := 0
			if n%4 == 0 {
				at = k.With(i).IntN(0, len(want))
			}
			seq := want[at]
			place := l.find(func(h *Header) bool { return h.Seq == seq })
			if f := l.take(place); f.Header.Seq != seq {
				t.Fatalf("took %d, want %d", f.Header.Seq, seq)
			}
			want = slices.Delete(want, at, at+1)
		case n == 99:
			even := func(seq uint64) bool { return seq%16 == 0 }
			l.releaseIf(func(h *Header) bool { return even(h.Seq) })
			want = slices.DeleteFunc(want, even)
		}
		most = max(most, len(want))
		if len(l.frames)-l.head != len(want) {
			t.Fatalf("%d wait, want %d", len(l.frames)-l.head, len(want))
		}
	}
	if l.find(func(h *Header) bool { return h.Seq == 0 }) >= 0 || cap(l.frames) > 4*most {
		t.Errorf("room for %d frames, and at most %d waited", cap(l.frames), most)
	}
}
