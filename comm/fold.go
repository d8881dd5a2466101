package comm

import "context"

// Fold says how the elements of a vector combine in an all-reduce that a net makes by
// itself.
type Fold uint8

// Sums of floats are rounded in the order that the net takes them in. All others are
// the same in any order.
const (
	FoldNone Fold = iota // no net knows how
	SumFloat32
	MaxFloat32
	SumInt8
	SumInt16
)

// Width is the bytes of an element.
func (f Fold) Width() int { return [...]int{0, 4, 4, 1, 2}[f] }

// Folder is an Endpoint whose net has an all-reduce of its own.
type Folder interface {
	// Folds says whether the net makes all-reduces between these ranks.
	Folds(ranks []int) bool
	// FoldAll combines x over ranks, in place, of which this one is one: elements in the
	// machine's order of bytes. The flags of the header are OR-ed on the way. All ranks
	// must call it with the same header, but for its flags, in the same order. After an
	// error x holds nothing of use, and may be written to until the net has ended.
	FoldAll(ctx context.Context, ranks []int, h Header, x []byte, by Fold) (flags Flags, err error)
}

// Wrapper is an Endpoint around another one.
type Wrapper interface{ Unwrap() Endpoint }

// Folding returns e, or what it wraps, if that is a Folder; nil otherwise.
func Folding(e Endpoint) Folder {
	for {
		if f, ok := e.(Folder); ok {
			return f
		}
		w, ok := e.(Wrapper)
		if !ok {
			return nil
		}
		e = w.Unwrap()
	}
}
