package train

import (
	"math"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Uncompressed tells what of a gradient the job's codec sends as it is; nil if that
// is nothing, or if nothing else was asked for.
func (j *Job) Uncompressed() *record.Uncompressed {
	if j.Codec == nil || compress.Plain(j.Codec) {
		return nil
	}
	u, all := &record.Uncompressed{}, 0
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
			if at < record.MaxUncompressedNames {
				largest = append(largest[:at], append([]named{{b.Name, b.Len()}}, largest[at:]...)...)
				largest = largest[:min(len(largest), record.MaxUncompressedNames)]
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
