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
