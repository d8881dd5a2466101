package wire

import "github.com/gradlab/gradlab/compress"

// IsCast says whether a codec sends every value alone, as it is, in some format: it
// claims so, and shows so on a small block. One that does not is sent differences.
func IsCast(f compress.Family) bool { return compress.Casts(f) && compress.ShowsCast(f) }

// FeedsBack says whether a codec, or one inside it, keeps what it has not sent for a
// later step: it claims so, or shows so on a small block. Parameters would diverge, so
// a codec's word is not enough.
func FeedsBack(f compress.Family) bool { return compress.FeedsBack(f) || compress.ShowsMemory(f) }
