package record

import (
	"fmt"
	"strings"
)

// Uncompressed is what of a worker's gradient goes as it is, in float32, though
// there is a codec: tensors, or pieces of them, that it does not take, such as
// vectors and small matrices under powersgd. Buffers, which no codec is given, are no
// part of it.
type Uncompressed struct {
	Tensors int      `json:"tensors"` // or pieces of tensors
	Values  int      `json:"values"`
	Bytes   int      `json:"bytes"`           // of one gradient
	Share   float64  `json:"share"`           // of the bytes of one gradient; where their number depends on the data, of the most it can be
	Names   []string `json:"names,omitempty"` // the largest, at most MaxUncompressedNames
}

// MaxUncompressedNames is how many tensors an Uncompressed names.
const MaxUncompressedNames = 3

// String words it.
func (u *Uncompressed) String() string {
	return fmt.Sprintf("%d tensors or pieces go uncompressed, %d bytes of a gradient (%.1f %%): too small for the codec, or no matrices; the largest: %s",
		u.Tensors, u.Bytes, 100*u.Share, strings.Join(u.Names, ", "))
}
