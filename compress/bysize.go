package compress

import (
	"errors"
	"fmt"
)

var _ = Families.Add("bysize", "one codec for small blocks, another for large ones",
	BySize{Large: Feedback{In: topKDefault, Decay: 1}, Small: Raw{}, Limit: 1024})

// BySize picks the codec by the block's length, once, at construction.
//
//	C = small if d < limit, else large
//
// Biases and norms are a vanishing part of the bytes but suffer most from
// compression; PyTorch's PowerSGD hook and hivemind skip small tensors likewise.
//
// Paper: none.
//
// Tuning: limit=1024.
//
// Cost: none.
type BySize struct {
	Large Family `doc:"codec of blocks of limit elements or more"`
	Small Family `doc:"codec of shorter blocks"`
	Limit int    `spec:",show" doc:"elements"`
}

// Inner lists both codecs.
func (f BySize) Inner() []Family { return []Family{f.Large, f.Small} }

// Validate checks the options.
func (f BySize) Validate() error {
	if f.Large == nil || f.Small == nil {
		return errors.New("want two codecs, large and small")
	}
	if f.Limit < 0 {
		return fmt.Errorf(`option "limit": want a number of elements, not %d`, f.Limit)
	}
	return nil
}

// Choose returns the codec of block b.
func (f BySize) Choose(b Block) Family {
	if b.Len() < f.Limit {
		return f.Small
	}
	return f.Large
}

// Claims are those of the codec chosen.
func (f BySize) Claims(b Block) Claims {
	c, _ := ClaimsOf(f.Choose(b), b)
	return c
}

// New makes the codec chosen.
func (f BySize) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.Choose(b).New(b)
}
