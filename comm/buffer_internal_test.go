package comm

import "testing"

// Every class serves what it is asked for, with little to spare, and the capacities of
// classes grow one by one.
func TestClasses(t *testing.T) {
	before := 0
	for class := range pools {
		if class == len(pools)-1 {
			break
		}
		_, capacity := classOf(before + 1)
		if got, at := classOf(capacity); got != class || at != capacity {
			t.Fatalf("%d bytes: class %d of %d bytes, want class %d", capacity, got, at, class)
		}
		if got, at := classOf(capacity + 1); got != class+1 || at <= capacity || capacity > 1<<coarse && 8*at > 9*(capacity+1)+8 {
			t.Fatalf("%d bytes: class %d of %d bytes after class %d", capacity+1, got, at, class)
		}
		before = capacity
	}
	if uint64(before) < 1<<(most-1) {
		t.Errorf("the last class has %d bytes", before)
	}
	// One that is given back serves as much again, whatever its capacity was.
	for _, capacity := range []int{1, 1000, 1<<coarse + 1, 102_000_001} {
		b := &Buffer{B: make([]byte, capacity)}
		b.refs.Store(1)
		b.Release()
		n := capacity - capacity/8 - 1
		if c := NewBuffer(max(n, 0)); len(c.B) != max(n, 0) {
			t.Errorf("%d bytes, want %d", len(c.B), n)
		}
	}
}

// Views hold what they are of, and each is its holder's alone once nobody else reads the whole.
func TestViews(t *testing.T) {
	b := NewBuffer(100)
	lo, hi := b.View(0, 60), b.View(60, 100)
	if lo.Of() != b || b.Of() != nil || len(lo.B) != 60 || &hi.B[0] != &b.B[60] || cap(lo.B) != 60 {
		t.Fatalf("%d bytes of room %d, and %d", len(lo.B), cap(lo.B), len(hi.B))
	}
	if lo.Sole() || hi.Sole() || b.Sole() {
		t.Error("the whole is still read, and a part of it is somebody's alone")
	}
	b.Release()
	if !lo.Sole() || !hi.Sole() {
		t.Error("only views are left, and none is its holder's alone")
	}
	if hi.Retain(); hi.Sole() || !lo.Sole() {
		t.Error("one view has two holders, not the other")
	}
	hi.Release()
	if b.Retain(); lo.Sole() {
		t.Error("the whole is read again")
	}
	b.Release()
	lo.Release()
	if hi.B[0] = 1; !hi.Sole() || b.refs.Load() != view {
		t.Errorf("%x references are left with one view", b.refs.Load())
	}
	hi.Release()
	if b.refs.Load() != 0 || hi.B != nil {
		t.Errorf("%x references are left without views", b.refs.Load())
	}
	defer func() {
		if recover() == nil {
			t.Error("released more often than retained, and nobody minds")
		}
	}()
	b.Release()
}
