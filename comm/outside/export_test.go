package outside

import "time"

// SetQuiet sets how long processes compute nothing before a rank counts as stuck, and
// returns what sets it back.
func SetQuiet(d time.Duration) func() {
	was := quiet
	quiet = d
	return func() { quiet = was }
}
