package data

import (
	"errors"
	"testing"
)

// The set read last is there for the next who asks; a failure leaves nothing.
func TestMemory(t *testing.T) {
	var m Memory
	reads := 0
	read := func(pixel uint8) func() (loaded, error) {
		return func() (loaded, error) {
			reads++
			return loaded{parts: [2]*images{{pix: []uint8{pixel}}, {pix: []uint8{pixel}}}}, nil
		}
	}
	var hashes []uint64
	for i, path := range []string{"a", "a", "b", "b", "a"} {
		l, hash, err := m.recall(path, read(path[0]))
		if err != nil || l.parts[0].pix[0] != path[0] {
			t.Errorf("%d: %v, %v", i, l, err)
		}
		hashes = append(hashes, hash)
	}
	if reads != 3 || hashes[0] != hashes[1] || hashes[1] == hashes[2] || hashes[4] != hashes[0] {
		t.Errorf("%d reads, hashes %x", reads, hashes)
	}
	if _, _, err := m.recall("c", func() (loaded, error) { return loaded{}, errors.New("unreadable") }); err == nil {
		t.Error("no error")
	}
	if l, _, _ := m.recall("a", read('x')); l.parts[0].pix[0] != 'a' {
		t.Error("a failure made it forget")
	}
	var none *Memory
	for range 2 {
		_, _, _ = none.recall("a", read('a'))
	}
	if reads != 5 {
		t.Errorf("%d reads", reads)
	}
}
