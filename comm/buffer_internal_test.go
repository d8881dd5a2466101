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
