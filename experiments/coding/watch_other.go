//go:build !linux

package coding

import "time"

// spent is not known here.
func spent() (cpu time.Duration, taken int64) { return 0, 0 }

// load is not known here.
func load() float64 { return 0 }
