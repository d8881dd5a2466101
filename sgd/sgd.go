// Package sgd is the vocabulary of training: the flat parameter vector and its
// named spans, batches by address, models, and update rules.
//
// Everything is float32 and flat. Parameters, gradients, moments and residuals
// are []float32 of one length, Layout.Size(); a Span names a piece of it.
package sgd

import (
	"context"
	"fmt"
	"hash/fnv"
)

// Role says what a span holds, and so how it is decayed, encoded and combined.
type Role uint8

const (
	Weight Role = iota // matrices and filters: decayed, encoded by the codec
	Bias               // additive terms: not decayed by default
	Norm               // scale and shift of a normalisation: not decayed by default
	// Buffer is state a model carries beside its trainable parameters, such as
	// batch-norm running statistics. Its "gradient" is old − new: Transforms
	// pass it through untouched at rate 1, so that averaging gradients over
	// ranks averages the statistics, and one worker keeps exactly its own.
	// Buffers always travel uncompressed.
	Buffer
	// Embedding is a table: a row a token or position, and the layer that scores tokens. It
	// is decayed and encoded as weights are, but rules for matrices leave it alone.
	Embedding
)

// IsWeight reports whether r is decayed and encoded as weights are: Weight and Embedding.
func (r Role) IsWeight() bool { return r == Weight || r == Embedding }

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

var roleNames = [...]string{"weight", "bias", "norm", "buffer", "embedding"}

// Span is a named piece of the flat vector: Rows×Cols values from Off, row
// major. A vector is Rows = 1; a filter bank has one output channel a row.
type Span struct {
	Name       string
	Off        int
	Rows, Cols int
	Role       Role
}

// Len is the number of values in the span.
func (s Span) Len() int { return s.Rows * s.Cols }

// End is the offset behind the span.
func (s Span) End() int { return s.Off + s.Len() }

// Layout is the list of spans of a vector, in forward order of first use,
// contiguous from 0.
type Layout struct{ Spans []Span }

// Add appends a span behind the last one and returns its index.
func (l *Layout) Add(name string, role Role, rows, cols int) int {
	l.Spans = append(l.Spans, Span{Name: name, Off: l.Size(), Rows: rows, Cols: cols, Role: role})
	return len(l.Spans) - 1
}

// Size is the length of the vector, buffers included.
func (l Layout) Size() int {
	if len(l.Spans) == 0 {
		return 0
	}
	return l.Spans[len(l.Spans)-1].End()
}

// Trainable is the number of values that are not buffers.
func (l Layout) Trainable() int {
	n := 0
	for _, s := range l.Spans {
		if s.Role != Buffer {
			n += s.Len()
		}
	}
	return n
}

// View returns the part of v that span i covers, capped at its end.
func (l Layout) View(v []float32, i int) []float32 {
	s := l.Spans[i]
	return v[s.Off:s.End():s.End()]
}

// Find returns the index of the span called name, −1 if there is none.
func (l Layout) Find(name string) int {
	for i, s := range l.Spans {
		if s.Name == name {
			return i
		}
	}
	return -1
}

// Hash identifies names, shapes, roles and order; ranks compare it when they
// join.
func (l Layout) Hash() uint64 {
	h := fnv.New64a()
	for _, s := range l.Spans {
		fmt.Fprintf(h, "%s/%d/%d/%d;", s.Name, s.Role, s.Rows, s.Cols)
	}
	return h.Sum64()
}

// Sample is the form of a sample: what a Source serves, and what a model is built for.
//
// Inputs are Shape.Len() numbers or, where Vocabulary is above 0, as many tokens, numbers
// from 0 to Vocabulary−1. Labels are classes from 0 to Classes−1: one, or Targets of them.
type Sample struct {
	Shape
	Classes    int
	Vocabulary int // 0: inputs are numbers
	Targets    int // labels; 0 is 1
	// Bytes is how many bytes of text a label of the test set stands for, on the mean; 0: that
	// is not known, or samples are no texts.
	Bytes float64
}

// Labels is the number of labels of a sample, at least 1.
func (s Sample) Labels() int { return max(1, s.Targets) }

// Tokens is the number of tokens of a sample that are guessed; 0 of samples that are no texts.
func (s Sample) Tokens() int {
	if s.Vocabulary == 0 {
		return 0
	}
	return s.Labels()
}

func (s Sample) String() string {
	text := s.Shape.String()
	if s.Vocabulary > 0 {
		text = fmt.Sprintf("%d tokens of %d", s.Shape.Len(), s.Vocabulary)
	}
	if s.Labels() > 1 {
		return fmt.Sprintf("%s, %d labels of %d classes", text, s.Labels(), s.Classes)
	}
	return fmt.Sprintf("%s, %d classes", text, s.Classes)
}

// Draw addresses N consecutive samples of the shuffled sample stream from
// position First. Position p lies in epoch p / len(train set); the order within
// an epoch is a permutation by address. Rank r of W at step s with batch B
// draws First = (s·W + r)·B: the same samples in every mode and place.
//
// Side, if not 0, asks for pictures of Side×Side pixels in place of the source's own
// shape, of a source that is Scaling.
type Draw struct {
	First uint64
	N     int
	Side  int
}

// Batch is N samples: X holds N·Dim inputs, or Tokens N·Dim tokens, and Y the labels,
// N·Sample.Labels() of them. Of X and Tokens the one that samples do not have is empty.
// First is the stream position of the first sample: dropout masks and augmentation are
// addressed by (Seed, First+i), so a sample meets the same mask whichever rank
// draws it.
//
// Where samples are mixed (mixup, cutmix), sample i is of class Y[i] by the share
// Share[i], 0 to 1, and of class Other[i] by the rest; both are empty where none is.
//
// Side is that of the Draw: 0 for samples of the source's own shape.
type Batch struct {
	X      []float32
	Tokens []int32
	Y      []int32
	N      int
	First  uint64
	Seed   uint64
	Side   int

	Other []int32
	Share []float32
}

// Shape is the geometry of one sample: channels × height × width (features are
// 1×1×W).
type Shape struct{ C, H, W int }

// Len is the number of values in one sample.
func (s Shape) Len() int { return s.C * s.H * s.W }

func (s Shape) String() string { return fmt.Sprintf("%dx%dx%d", s.C, s.H, s.W) }

// Source is a set of labelled samples.
type Source interface {
	// Batch fills b with the samples at d, growing its slices when they are too
	// short and reusing them otherwise. Safe for concurrent use with distinct b.
	Batch(d Draw, b *Batch) error
	Len() int       // samples in an epoch
	Sample() Sample // the form of each
}

// Scaling is implemented by sources that can show their samples smaller: square
// pictures, of any side below their own.
type Scaling interface {
	// Scales reports whether Draw.Side may be above 0.
	Scales() bool
}

// Dataset is a named pair of training and test sources. Hash identifies the
// bytes it was read from. A test source is not shuffled: position p is sample
// p mod Len.
type Dataset struct {
	Name        string
	Train, Test Source
	Hash        uint64
	Note        string     // a caveat to print beside results, such as "JPEG quality 75"
	Vocabulary  Vocabulary // what tokens stand for; nil: samples are none, or nobody knows

	// LeftOut, if set, says which samples this process has had to leave out so far
	// because they cannot be read, "" if none. Where samples are read as they are
	// needed this is known at the end of a run only.
	LeftOut func() string
}

// Vocabulary says what the tokens of texts stand for. It is safe for concurrent use.
type Vocabulary interface {
	Len() int // tokens are numbers from 0 to Len()−1
	// Encode appends the tokens of a text. The error names what of it is no token.
	Encode(dst []int32, text []byte) ([]int32, error)
	// Decode appends the bytes that a token stands for: none for a special token.
	Decode(dst []byte, token int32) []byte
}

// Scratch is a model's working memory for one pass at a time; one per core.
type Scratch any

// Pass is one forward and backward run. Grad is overwritten, not added to, and
// holds the gradient of the mean loss over the batch (buffers: see Buffer).
// Need, if set, is called before span i is first read; Ready once its gradient
// is final: pulls then overlap the forward pass, pushes the backward pass.
type Pass struct {
	Params, Grad []float32
	Need, Ready  func(span int) error
	// Meet, if set, is called where the pass goes on with what others have computed: it
	// returns when the meeting has taken place. Every pass over as many samples comes to the
	// same meetings in one order.
	Meet    func(Meeting) error
	Scratch Scratch
	Threads int // goroutines this pass may use at most; 0 = no own limit
}

// Model computes losses and gradients. It is immutable and safe for concurrent
// use; what a pass writes lives in its Scratch.
type Model interface {
	Layout() Layout
	Init(params []float32, seed uint64)
	NewScratch() Scratch
	// Grad runs one pass and returns the mean loss. An error of Need or Ready,
	// or a cancelled ctx, ends it early.
	Grad(ctx context.Context, p Pass, b Batch) (loss float64, err error)
	// Eval scores a batch in inference mode (no dropout, running statistics).
	Eval(params []float32, s Scratch, b Batch) (Score, error)
	// Metrics lists what Eval measures; the first is what runs are compared by. Always the same.
	Metrics() []Metric
	// SpanFLOPs is, per span, the floating-point operations of the forward pass
	// of the layers that first read it, for one sample; a backward pass costs
	// twice that. The virtual cluster bills them.
	SpanFLOPs() []float64
}

// Portable is implemented by models whose parameters a file can hold, in the form that
// others know them by.
type Portable interface {
	// Weights encodes params, of the layout's size.
	Weights(params []float32) ([]byte, error)
	// SetWeights sets params from such a file, or from the model.safetensors of a run. On an
	// error, which says what does not fit, they are as they were.
	SetWeights(params []float32, file []byte) error
	// From is the model with first parameters from a file, whatever the seed.
	From(file []byte) (Model, error)
}

// Resizable is implemented by models that may be able to compute smaller pictures with the
// same parameters, as those that end in a mean over the grid.
type Resizable interface {
	// At is the model for square pictures of a side below its own: of the same layout, and
	// on the scratch of this one. The error says what in the model has a fixed side.
	At(side int) (Model, error)
}

// Meeting is a place in a pass at which it meets those of others: workers whose passes go
// together, or who compute other parts of the same model.
type Meeting struct {
	Key int // which of the pass
	// Sums is added up over the workers whose passes go together, in place and with the same
	// bits everywhere: statistics of a batch norm are then those of all their batches. It has
	// the same length on all, and batches have the same size.
	Sums []float64
	// Out is for the neighbours of a part of a model, and In is filled with what they have for
	// it: activations, or their gradients. Neither is read or written behind the meeting by
	// who arranged it.
	Out, In []float32
}

// Joint is implemented by models whose passes may call Pass.Meet.
type Joint interface {
	// Meetings lists the meetings of a pass over so many samples, in order; none: it meets
	// nobody. Of what is in them only lengths count.
	Meetings(samples int) []Meeting
}

// Printing is implemented by models that other programs compute: an error about what they
// computed has what they printed last.
type Printing interface {
	// Printed is the last lines of their output, "" if there are none.
	Printed() string
}

// Step is the context of one update. LR is the learning rate already scheduled
// and corrected; Delay the staleness of the gradient in updates.
type Step struct {
	N     int // updates applied before this one
	Epoch float64
	LR    float64
	Delay int
	Seed  uint64
}

// Transform turns a gradient into an update, in place: after the last one of a
// chain, params −= u. It sees the trainable spans of its layout and must leave
// buffer spans of u alone. Transforms hold state (momenta, sums) of the
// layout's length.
type Transform interface {
	Apply(u, params []float32, s Step)
}

// Optimizer is an option struct that makes a Transform for a layout. The
// learning rate is applied by the Transform that New returns (u = LR·direction).
type Optimizer interface {
	New(Layout) (Transform, error)
}

// Slot is one vector of a Transform's state, aliasing live memory and laid out
// as the parameters are: a checkpoint stores it span by span and so moves
// between shard counts.
type Slot struct {
	Name string
	V    []float32
}

// Stateful is implemented by Transforms with state to keep.
type Stateful interface{ Slots() []Slot }

// Momentous is implemented by Optimizers that may keep a momentum: part of a gradient
// is in updates after the one it came for. What has a momentum of its own (codec dgc,
// correctors such as dana) is refused or noted beside one. sgdtest proves the claim.
type Momentous interface {
	// Momentous says whether, with these options, it does.
	Momentous() bool
}

// Bare is implemented by Optimizers that may be plain gradient descent, w ← w − lr·g, and
// nothing beside. A mode of training with a rule of its own takes no other, since the
// optimizer has no say there. sgdtest proves the claim.
type Bare interface {
	// Bare says whether, with these options, it is.
	Bare() bool
}

// Selective is implemented by Optimizers that are for some tensors and leave the others as
// they are. One that is for no tensor of a model is noted before a run. sgdtest proves the
// claim.
type Selective interface {
	// Takes says whether the rule is for a span; it is for no buffer.
	Takes(Span) bool
}

// Whole is implemented by Optimizers that need whole tensors, or norms of them or of
// the whole vector, at once. They are refused where tensors are split over
// shards.
type Whole interface{ NeedsWhole() bool }
