package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// leastHeadroom is garbage that is always let be, in bytes.
const leastHeadroom = 32 << 20

// headroom is how much garbage the collector lets lie: a share, in percent, of what it has
// to look through. Left alone it goes by all that is alive. But parameters, gradients and
// activations have no pointers: they are collected for nothing, and as much memory again
// as they take would be lost to garbage.
type headroom struct {
	once    sync.Once
	percent atomic.Int64
	now     int // as it was set last
}

// The collector's pace is the process's, so there is one.
var collector headroom

// bound holds the headroom to a percentage from the next collection on. GOGC, which users
// may set, stands before it.
func (h *headroom) bound(percent int) {
	if os.Getenv("GOGC") != "" {
		return
	}
	h.percent.Store(int64(percent))
	h.once.Do(func() {
		h.now = percent
		debug.SetGCPercent(percent)
		h.watch(new(collection))
	})
}

// collection is garbage from one collection to the next.
type collection struct{ _ [16]byte }

// watch sets the pace after every collection.
func (h *headroom) watch(c *collection) {
	runtime.SetFinalizer(c, func(c *collection) {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}
		metrics.Read(s)
		if p := pace(int(h.percent.Load()), s[0].Value.Uint64(), s[1].Value.Uint64()); p != h.now {
			h.now = p
			debug.SetGCPercent(p)
		}
		h.watch(c)
	})
}

// pace is the percentage of what is alive that may be added before the next collection,
// where so many bytes of it must be looked through.
func pace(percent int, alive, scanned uint64) int {
	room := max(leastHeadroom, scanned*uint64(percent)/100)
	return int(min(uint64(percent), max(1, room*100/max(1, alive))))
}
