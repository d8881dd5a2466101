package coding

import (
	"time"

	"golang.org/x/sys/unix"
)

// spent is the processor time of this thread so far, and how often others took the
// core from it.
func spent() (cpu time.Duration, taken int64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Nivcsw)
}

// load is how many processes have wanted a core of this machine in the last minute.
func load() float64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0
	}
	return float64(i.Loads[0]) / (1 << 16)
}
