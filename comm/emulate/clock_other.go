//go:build !linux

package emulate

import "time"

// now is the present instant, by the one clock that processes of a machine share here:
// the wall clock, which must not be set while an emulated run goes on.
func now() instant { return instant(time.Now().UnixNano()) }
