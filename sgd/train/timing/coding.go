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
	// Gathered says, of decoding, that the payload is one of those that every rank
	// gathers from all others and adds up.
	Gathered bool
}

// FlatRate prices every codec but those that compress nothing (compress.Plain) by one rate: bytes of gradient, before
// encoding, that a device encodes or decodes a second. A gathered payload is decoded at
// that rate of its own bytes: what it does not hold is not read. What servers decode is
// left to Timing.Apply, and what they encode costs nothing. 0: nothing does.
func FlatRate(rate float64) func(Coding) time.Duration {
	if rate <= 0 {
		return nil
	}
	return func(c Coding) time.Duration {
		if c.Server || compress.Plain(c.Codec) {
			return 0
		}
		bytes := 4 * c.Block.Len()
		if claims, ok := compress.ClaimsOf(c.Codec, c.Block); ok && c.Gathered && c.Decode {
			bytes = min(bytes, claims.Size)
		}
		return At(float64(bytes), rate)
	}
}
