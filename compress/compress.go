// Package compress holds gradient codecs. A codec never talks: what Append
// returns is all that travels, and its length is the cost that is billed. What
// it cannot express alone (several rounds, sums in the compressed domain) it
// asks for through Exchange.
//
// One codec a file. A file opens with its formula, paper, departures, tuning
// and cost, and enrols itself with one line:
//
//	var _ = Families.Add("topk", "keep the k largest entries", TopK{Keep: 0.01})
//
// That line puts it into spec text, `gradlab list`, the conformance suite and
// the benchmarks. Error feedback, size rules and entropy stages are codecs that
// hold a codec.
package compress

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/registry"
)

// Families holds every codec family by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Families = registry.New[Family]("codec")

// Direction is the way a block's payloads go.
type Direction uint8

const (
	Up   Direction = iota // gradients, worker to server or to the other ranks
	Down                  // parameters or their differences, server to worker
)

// Block is what a codec instance works on: one tensor, or the part of it that
// lies in one shard. Never a fusion bucket: state must survive re-bucketing.
type Block struct {
	Name       string // the tensor's name, with its slice if it is split
	Role       string // what the tensor is for: weight, embedding, bias or norm; "" if unknown
	Rows, Cols int    // explicit matrix shape; a vector is 1×n
	Rank       int    // the rank that encodes here (−1: decode only)
	World      int    // number of ranks that encode this block
	Peer       int    // Down: the worker this instance serves
	Dir        Direction
	Seed       uint64 // the run's seed
}

// Len is the number of elements in the block.
func (b Block) Len() int { return b.Rows * b.Cols }

// Step is the context of one encoding. What whoever encodes does not know is 0.
type Step struct {
	N     int     // steps the sender has made, or updates of what a server sends
	Epoch float64 // passes over the data; of gradients, not of parameters
	LR    float64 // learning rate; known in modes without servers that sum gradients
	Seed  uint64  // the run's seed
}

// From says who encoded a payload and when: shared-seed decoders need it.
type From struct {
	Rank int
	Step int
}

// Codec encodes and decodes one block in one direction. It may hold state (a
// residual, a warm start); state that must survive a restart is reachable by
// the standard encoding.BinaryAppender and encoding.BinaryUnmarshaler.
type Codec interface {
	// Append encodes g, which it must not modify or keep, behind dst.
	// len(g) must equal the block's length (panics otherwise: the caller's
	// error). Non-finite values are answered per Claims.Special.
	Append(dst []byte, g []float32, s Step) ([]byte, error)
	// AddTo decodes payload and adds scale·decoded to dst. Any bytes may come
	// in: a malformed payload gives an error (wrapping ErrCorrupt) and leaves
	// dst untouched. AddTo has no side effect.
	AddTo(dst []float32, scale float32, payload []byte, from From) error
}

// Receiver is the receiving end of a codec that holds state on both ends
// (EF21). Codec.AddTo is then not used.
type Receiver interface {
	// Receive adds scale times what payload stands for, given all payloads before
	// it, to dst. It must be called once for each payload of its sender, in order.
	// A malformed payload gives an error (wrapping ErrCorrupt) and changes neither
	// dst nor the receiver.
	Receive(dst []float32, scale float32, payload []byte, from From) error
}

// ReceiverFamily is implemented by families whose payloads take a Receiver, one
// per sender and block.
type ReceiverFamily interface {
	NewReceiver(Block) (Receiver, error)
}

// Family is an option struct that makes codecs. It is comparable in spec text:
// Parse(Spec(f)) equals f.
type Family interface {
	New(Block) (Codec, error)
}

// Claimer is implemented by families that state what they guarantee; the
// conformance suite proves exactly these claims.
type Claimer interface {
	Claims(Block) Claims
}

// Witnesser is implemented by families that know their worst case: an input on
// which Claims.Omega or Claims.Delta is nearly attained, or nil where they do
// not. The conformance suite holds the claim to it, so that a bound is not
// merely safe.
type Witnesser interface {
	Witness(Block) []float32
}

// Doubter is implemented by families that claim no contraction although no input is
// known on which they are none: their bound has not been proved. The conformance
// suite asks others that claim none for such an input.
type Doubter interface {
	// Doubt says what is not known on a block, "" where nothing is in doubt.
	Doubt(Block) string
}

// Special says what a codec does with NaN and ±Inf.
type Special uint8

const (
	SpecialError     Special = iota // Append returns ErrNotFinite
	SpecialPropagate                // they arrive as they are
)

// Linearity says whether payloads may be summed without decoding.
type Linearity uint8

const (
	NotLinear Linearity = iota
	FloatSum            // the wire vector of Linear adds element-wise
)

// Claims is what a codec guarantees on a block of length d. C is the decoded
// encoding. Every figure is for one encoding of a stateless codec, up to the
// rounding of float32, and holds while nothing over- or underflows the format
// in which values travel (fp16: 6e-5 to 65504). A codec with Unbiased, Delta or
// Homogeneous maps zero to zero.
type Claims struct {
	Lossless bool // C(g) = g bit for bit
	Unbiased bool // E C(g) = g
	// Omega bounds E‖C(g)−g‖² ≤ Omega·‖g‖². Only with Unbiased; +Inf if unknown.
	Omega float64
	// Delta in (0,1]: E‖C(g)−g‖² ≤ (1−Delta)·‖g‖², so the codec is a
	// contraction and error feedback converges. 0 claims nothing.
	Delta float64
	// Absolute bounds ‖C(g)−g‖² whatever ‖g‖: feedback then keeps a bounded
	// residual without a contraction. 0 claims nothing.
	Absolute float64
	// Size is the payload's length in bytes if Exact, else its upper bound (the
	// length depends on the data).
	Size  int
	Exact bool
	// Raw says that nothing is compressed: a first payload is the block's values as
	// they are, 4 bytes each, and all are as long. What falls back to that on a block
	// says so by this claim.
	Raw bool
	// Shaped says that the block is used as a matrix: as 1×n it would be encoded
	// otherwise. Where such a tensor is cut, it is cut along its rows.
	Shaped bool
	// Linear says that NewExchange takes the sum road. Codecs without state also
	// implement Linear; a stateful one (feedback) sums inside its Exchange.
	Linear  Linearity
	Special Special
	// Stateful codecs (feedback) change from step to step.
	Stateful bool
	// Homogeneous: C(2ᵏg) = 2ᵏC(g) exactly, barring over- and underflow.
	Homogeneous bool
	// Cast: every value travels alone, as it is, in some format. A payload has equally
	// many bytes for each value, in their order. They depend on that value and the step
	// alone, and decode to within 2⁻⁷ of it.
	Cast bool
	// Remembers: what an encoding leaves out is kept and sent in later steps. Where
	// differences to what the other end holds are encoded, they bring it back as well,
	// so it would be added twice.
	Remembers bool
	// Unchecked: an option (unchecked=true) permits what is refused without it; it
	// permits a memory among such differences, too.
	Unchecked bool
	// WarmsUp: payloads shrink over the first steps or epochs, by a quarter or more.
	WarmsUp bool
	// HalfSums: the exchange sums values in two bytes (F16, BF16), which rounds them on
	// every hop.
	HalfSums bool
	// Rounds and Asked are what an exchange on RoadOwn asks for in a step: the
	// number of operations, and the bytes that one rank puts in. AskedBound: at
	// most, else exactly. 0 for codecs that NewExchange adapts.
	Rounds, Asked int
	AskedBound    bool
	// Allocs is how many objects one encoding and decoding allocate in steady
	// state: 0 but for what lies in a library.
	Allocs int
}

// Plain reports whether every payload is the block's values as they are, NaN and Inf
// included, in every step: 4 bytes each, little-endian.
func (c Claims) Plain() bool {
	return c.Raw && c.Lossless && !c.Stateful && c.Special == SpecialPropagate
}

// Linear is implemented by codecs whose encodings add: Project gives the wire
// vector, sums of wire vectors (of equal Step) are lifted back. Such codecs
// take the all-reduce road.
type Linear interface {
	Codec
	WireLen() int
	// Wire is the format an element of the wire vector travels in.
	Wire() Wire
	// Project writes the wire vector of g to dst, len(dst) = WireLen().
	Project(dst, g []float32, s Step) error
	// Lift adds scale · (what sum stands for) to dst.
	Lift(dst []float32, scale float32, sum []float32, s Step) error
}

// Wire is an element format for sums. I8 and I16 carry whole numbers: a sum is
// exact and the same in any order, and who asks for it sees to it that no sum
// of some of the ranks exceeds Wire.Limit.
type Wire uint8

const (
	F32 Wire = iota
	F16
	BF16
	I8
	I16
	Wires // how many there are
)

// Bytes is the size of an element on the wire.
func (w Wire) Bytes() int {
	switch w {
	case F32:
		return 4
	case I8:
		return 1
	}
	return 2
}

// Limit is the largest magnitude of a whole number on I8 or I16, 0 elsewhere.
func (w Wire) Limit() int {
	switch w {
	case I8:
		return 127
	case I16:
		return 32767
	}
	return 0
}

// OpKind is an operation an Exchange may ask for.
type OpKind uint8

const (
	OpNone    OpKind = iota // nothing more: the exchange is done
	OpSum                   // element-wise sum of Floats over all ranks
	OpMax                   // element-wise maximum of Floats
	OpGather                // every rank's Bytes, in rank order (lengths may differ)
	OpScatter               // of every rank's Slices the one for this rank, in rank order
)

// Op is what an Exchange asks the network for. It costs exactly
// len(Floats)·Wire.Bytes(), len(Bytes) or the sum of len(Slices[r]) per
// contribution.
type Op struct {
	Kind   OpKind
	Floats []float32 // in: this rank's contribution; out: the sum, in place
	Wire   Wire
	Bytes  []byte
	Slices [][]byte // for every rank its own; this rank's does not travel
	Parts  [][]byte // out of OpGather and OpScatter, index = rank
}

// Exchange takes one block through one step, over as many rounds as it needs.
// It asks and never talks, so it runs on every topology and net. Call Begin,
// perform the Op, hand it to Next, until OpNone; then Output, then Credited.
type Exchange interface {
	Begin(g []float32, s Step) (Op, error)
	Next(done Op) (Op, error)
	// Output adds scale · (sum over ranks of what each contributed) to dst. It
	// is bit-identical on all ranks.
	Output(dst []float32, scale float32) error
	// Credited adds scale · (what this rank contributed to that sum) to dst:
	// all that error feedback needs.
	Credited(dst []float32, scale float32) error
}

// Exchanger is implemented by families with an Exchange of their own. Other
// families are adapted by NewExchange, and so is one that returns nil and no
// error.
type Exchanger interface {
	NewExchange(Block) (Exchange, error)
}

// ErrCorrupt is wrapped by every decoding error.
var ErrCorrupt = errors.New("corrupt payload")

// ErrNotFinite is returned for NaN or ±Inf where Claims.Special is
// SpecialError.
var ErrNotFinite = errors.New("gradient has NaN or Inf")

// Corruptf builds an error that wraps ErrCorrupt.
func Corruptf(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, a...))
}
