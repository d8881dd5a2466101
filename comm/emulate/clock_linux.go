package emulate

import "golang.org/x/sys/unix"

// now is the present instant, by a clock that all processes of a machine share and that
// nobody can set.
func now() instant {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for a clock that is not there only
	return instant(t.Nano())
}
