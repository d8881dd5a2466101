package train

import (
	"fmt"
	"math"
	"strings"

	"github.com/gradlab/gradlab/compress"
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

// Uncompressed tells what of a gradient the job's codec sends as it is; nil if that
// is nothing, or if nothing else was asked for.
func (j *Job) Uncompressed() *Uncompressed {
	if j.Codec == nil || compress.Plain(j.Codec) {
		return nil
	}
	u, all := &Uncompressed{}, 0
	type named struct {
		name string
		n    int
	}
	var largest []named
	for _, list := range j.Cuts() {
		for _, c := range list {
			if c.Buffer || c.Block.Len() == 0 {
				continue
			}
			b := c.Block
			b.World, b.Seed = j.Workers, j.Seed
			claims, _ := compress.ClaimsOf(j.Codec, b)
			if claims.Size < math.MaxInt-all {
				all += claims.Size
			}
			if !claims.Raw {
				continue
			}
			u.Tensors, u.Values, u.Bytes = u.Tensors+1, u.Values+b.Len(), u.Bytes+4*b.Len()
			at := len(largest)
			for at > 0 && largest[at-1].n < b.Len() {
				at--
			}
			if at < MaxUncompressedNames {
				largest = append(largest[:at], append([]named{{b.Name, b.Len()}}, largest[at:]...)...)
				largest = largest[:min(len(largest), MaxUncompressedNames)]
			}
		}
	}
	if u.Tensors == 0 {
		return nil
	}
	u.Share = float64(u.Bytes) / float64(all)
	for _, l := range largest {
		u.Names = append(u.Names, l.name)
	}
	return u
}

// String words it.
func (u *Uncompressed) String() string {
	return fmt.Sprintf("%d tensors or pieces go uncompressed, %d bytes of a gradient (%.1f %%): too small for the codec, or no matrices; the largest: %s",
		u.Tensors, u.Bytes, 100*u.Share, strings.Join(u.Names, ", "))
}
