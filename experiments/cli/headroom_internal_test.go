package cli

import (
	"runtime/debug"
	"testing"
)

// What has no pointers earns no headroom, what has some all that was asked for; small
// heaps are let be.
func TestPaceOfTheCollector(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		percent        int
		alive, scanned uint64
		want           int
	}{
		{100, 1 * mb, 1 * mb, 100}, {100, 32 * mb, 0, 100}, {100, 320 * mb, 0, 10}, {200, 320 * mb, 0, 10},
		{100, 32_000 * mb, 0, 1}, {100, 1000 * mb, 900 * mb, 90}, {200, 1000 * mb, 1000 * mb, 200}, {100, 0, 0, 100},
	} {
		if got := pace(c.percent, c.alive, c.scanned); got != c.want {
			t.Errorf("%d%% of %d MB, %d MB of them to be looked through: %d%%, want %d%%", c.percent, c.alive/mb, c.scanned/mb, got, c.want)
		}
	}
	t.Setenv("GOGC", "70")
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	new(headroom).bound(300)
	if got := debug.SetGCPercent(70); got != 70 {
		t.Errorf("GOGC=70 became %d", got)
	}
}
