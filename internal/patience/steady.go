package patience

import (
	"fmt"
	"time"
)

// Steady is what try ends with, where the machine ran all the time. If it stood still for
// half of lease or more while try failed, that proves nothing: whoever stands still for a
// lease is taken for dead, and rightly. It is tried again then, thrice at most.
func Steady(lease time.Duration, try func() error) (err error) {
	for range 3 {
		done, stood := make(chan struct{}), make(chan time.Duration)
		go func() { stood <- still(done) }()
		err = try()
		close(done)
		if s := <-stood; err == nil || s < lease/2 {
			return err
		} else {
			err = fmt.Errorf("the machine stood still for %v: %w", s.Round(time.Millisecond), err)
		}
	}
	return err
}

// still is the longest that this goroutine did not get to run until done.
func still(done <-chan struct{}) (longest time.Duration) {
	const tick = 20 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		over := false
		select {
		case <-ticker.C:
		case <-done:
			over = true
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)-tick), now
		if over {
			return longest
		}
	}
}
