package ps_test

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/comm/ps"
)

// A core that is renewed goes on from an update with other workers: its account is that of
// before, and their pushes are counted from 0.
func TestRenew(t *testing.T) {
	c, _ := core(t, "bsp", 3)
	for version := range uint64(2) {
		for w := range 3 {
			call(t, func() ([]ps.Reply, error) { return c.Push(push(w, version, version, "g")) })
		}
	}
	state, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := core(t, "bsp", 2)
	got, err := next.Renew(state, []int{2, -1})
	if err != nil || !slices.Equal(got, []uint64{2, 2, 2}) {
		t.Fatalf("pushes %v, %v", got, err)
	}
	if next.Version() != 2 || next.Taken() != 4 || next.Ledger().Applied != 6 || next.NumLive() != 2 {
		t.Errorf("version %d, taken %d, %+v, %d workers", next.Version(), next.Taken(), next.Ledger(), next.NumLive())
	}
	for w := range 2 {
		call(t, func() ([]ps.Reply, error) { return next.Push(push(w, 0, 2, "g")) })
	}
	if next.Version() != 3 || next.Ledger().Applied != 8 || !slices.Equal(next.Received(), []uint64{1, 1}) {
		t.Errorf("version %d, %+v, received %v", next.Version(), next.Ledger(), next.Received())
	}
	for name, from := range map[string][]int{"worker 3 of 3": {0, 3}, "one worker for two": {0}} {
		if _, err := next.Renew(state, from); err == nil {
			t.Errorf("%s, and the core is renewed", name)
		}
	}
	call(t, func() ([]ps.Reply, error) { return c.Push(push(0, 2, 2, "g")) })
	if state, err = c.AppendBinary(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Renew(state, []int{0, 1}); err == nil {
		t.Error("a push is held, and the core is renewed")
	}
}
