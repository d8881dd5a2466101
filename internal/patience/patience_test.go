package patience

import (
	"testing"
	"time"
)

// Waits are never shortened, and grow with the factor that is in force.
func TestStretch(t *testing.T) {
	if d := Stretch(time.Second); d < time.Second {
		t.Errorf("stretched to %v", d)
	}
	last.mu.Lock()
	last.factor, last.at = 10, time.Now()
	last.mu.Unlock()
	if d := Stretch(time.Second); d != 18500*time.Millisecond {
		t.Errorf("at a tenth of the speed %v", d)
	}
	last.mu.Lock()
	last.factor = 0
	last.mu.Unlock()
	if f := Factor(); f < 1 {
		t.Errorf("factor %v", f)
	}
}

// Threads grow with the load, within bounds, and a free machine keeps its own number.
func TestMore(t *testing.T) {
	for factor, want := range map[float64]int{1: 1, 3: 1, 3.1: 4, 8: 4, 12: 6, 16: 8, 100: 8} {
		if n := more(factor); n != want {
			t.Errorf("at factor %v %d threads a core, want %d", factor, n, want)
		}
	}
}
