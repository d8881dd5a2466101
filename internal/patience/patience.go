// Package patience stretches the waits of tests by what the machine gives them.
//
// A lease of a second is ample where a process has a core, and nothing where several
// others want the same one: a heartbeat that is due may then wait for its turn
// longer than the lease lasts. Tests of leases, limits and time-outs therefore
// take their durations through Stretch. A wait that only guards against hanging
// may be as long as one likes, and needs none of this.
package patience

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// How slowness is measured: so many pieces of work, each far shorter than a turn
// of a scheduler. Alone the whole takes some 20 ms.
const (
	pieces = 200
	rounds = 40_000 // of a piece
	fresh  = 3 * time.Second
	// stall is how many times the least a piece counts for at most, some 100 ms: longer than
	// others' turns is what a whole machine stands still, once.
	stall = 1000
)

var last struct {
	mu     sync.Mutex
	factor float64
	at     time.Time
}

// Factor is how many times as long as it would alone a thread of this process
// takes for its work now, at least 1. The piece of work that took the least is
// taken for undisturbed; so the figure wants no clock but the wall's, and no
// figure of the machine's speed.
func Factor() float64 {
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.factor > 0 && time.Since(last.at) < fresh {
		return last.factor
	}
	var took [pieces]time.Duration
	sum := uint64(1)
	for i := range took {
		start := time.Now()
		for range rounds {
			sum = sum*6364136223846793005 + 1442695040888963407
		}
		took[i] = time.Since(start)
	}
	runtime.KeepAlive(sum) // else there would be nothing to compute
	least, all := slices.Min(took[:]), time.Duration(0)
	for _, t := range took {
		all += min(t, stall*least)
	}
	last.factor, last.at = max(1, float64(all)/float64(pieces*least)), time.Now()
	return last.factor
}

// Stretch is d on a machine with a core to spare, and longer in proportion where
// there is none. Twice the measured slowness is allowed for: several threads take
// part in what a test waits for, and load comes and goes.
func Stretch(d time.Duration) time.Duration {
	return time.Duration(float64(d) * max(1, 2*Factor()-1.5))
}
