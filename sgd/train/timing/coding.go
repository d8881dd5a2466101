package timing

import (
	"time"

	"github.com/gradlab/gradlab/compress"
)

// Coding is one use of a codec on one block, whose time a virtual clock asks for.
type Coding struct {
	Codec compress.Family
	Block compress.Block // its shape and role count
	// Ranks is 0 where a payload is made, or decoded and added to a vector. Else an
	// exchange of so many ranks is made: up to its first operation, or from there
	// to its end.
	Ranks  int
	Decode bool // decoding; of an exchange, all behind its first operation
	Server bool // a parameter server does it
}

// FlatRate prices every codec but those that compress nothing (compress.Plain) by one rate: bytes of gradient, before
// encoding, that a device encodes or decodes a second. What servers decode is left
// to Timing.Apply, and what they encode costs nothing. 0: nothing does.
func FlatRate(rate float64) func(Coding) time.Duration {
	if rate <= 0 {
		return nil
	}
	return func(c Coding) time.Duration {
		if c.Server || compress.Plain(c.Codec) {
			return 0
		}
		return At(4*float64(c.Block.Len()), rate)
	}
}
