package train

import (
	"context"
	"errors"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/staleness"
)

// Timeless says whether the parameters, the evaluations and the sizes of all
// payloads of this job's run depend on nothing that time decides. Such a run needs
// to be trained only once, and its times on other networks and devices come from
// Hollowed. A test runs every mode with every policy on two clusters and compares.
func (j *Job) Timeless() bool { return j.traits().Timeless }

// Hollowed is the job with its content left out: the same programs send frames of
// the same sizes at the same virtual instants, but gradients are zero, payloads
// hold zeros, nothing is evaluated, and no sample is drawn. Payloads whose sizes
// depend on the data have those of a run of the same trajectory (see Timeless),
// which noted them. samples is the number of training samples, by which epochs are
// counted. The job's model is asked for its layout and operations only, and its
// data for nothing, so both may be of any data set of the same shape.
func (j *Job) Hollowed(sizes *Sizes) *Job {
	h := *j
	h.Hollow, h.Sizes = true, sizes
	h.Model = hollowModel{j.Model.Layout(), j.Model.SpanFLOPs(), sumsOf(j.Model), j.Model}
	none := hollowSource{n: 0, of: j.Data.Train}
	h.Data = sgd.Dataset{Name: j.Data.Name, Hash: j.Data.Hash, Note: j.Data.Note, Train: hollowSource{n: j.Data.Train.Len(), of: j.Data.Train}, Test: none}
	h.Optimizer, h.Corrector = sgd.Plain{}, staleness.None{}
	if h.Outer != nil {
		h.Outer = sgd.Plain{}
	}
	h.EMA, h.Gap, h.NoiseScale = 0, false, false // what servers measure would be nothing
	h.Prepare()
	return &h
}

// hollowModel is a model's layout and operations without its arithmetic.
type hollowModel struct {
	layout sgd.Layout
	flops  []float64
	sums   []int
	of     sgd.Model
}

// At implements sgd.Resizable.
func (m hollowModel) At(side int) (sgd.Model, error) {
	of, ok := m.of.(sgd.Resizable)
	if !ok {
		return nil, errors.New("it has a fixed side")
	}
	at, err := of.At(side)
	if err != nil {
		return nil, err
	}
	m.flops = at.SpanFLOPs()
	return m, nil
}

// Sums implements sgd.Joint.
func (m hollowModel) Sums() []int { return m.sums }

// sumsOf lists the sums that passes of a model make with others'.
func sumsOf(m sgd.Model) []int {
	if joint, ok := m.(sgd.Joint); ok {
		return joint.Sums()
	}
	return nil
}

func (m hollowModel) Layout() sgd.Layout      { return m.layout }
func (m hollowModel) Init([]float32, uint64)  {}
func (m hollowModel) NewScratch() sgd.Scratch { return nil }
func (m hollowModel) SpanFLOPs() []float64    { return m.flops }

// Grad makes a gradient of zeros.
func (m hollowModel) Grad(_ context.Context, p sgd.Pass, _ sgd.Batch) (float64, error) {
	if p.Need != nil {
		for span := range m.layout.Spans {
			if err := p.Need(span); err != nil {
				return 0, err
			}
		}
	}
	clear(p.Grad)
	for i, n := range m.sums {
		if p.Sum == nil {
			break
		}
		if err := p.Sum(i, make([]float64, n)); err != nil {
			return 0, err
		}
	}
	if p.Ready != nil {
		for span := len(m.layout.Spans) - 1; span >= 0; span-- {
			if err := p.Ready(span); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

func (hollowModel) Eval([]float32, sgd.Scratch, sgd.Batch) (sgd.Score, error) {
	return sgd.Score{}, nil
}

// hollowSource is a number of samples with nothing in them.
type hollowSource struct {
	n  int
	of sgd.Source
}

func (s hollowSource) Len() int         { return s.n }
func (s hollowSource) Shape() sgd.Shape { return s.of.Shape() }
func (s hollowSource) Classes() int     { return s.of.Classes() }
func (s hollowSource) Batch(d sgd.Draw, b *sgd.Batch) error {
	b.N, b.First, b.Side = d.N, d.First, d.Side
	return nil
}

// Scales implements sgd.Scaling.
func (s hollowSource) Scales() bool {
	of, ok := s.of.(sgd.Scaling)
	return ok && of.Scales()
}

// hollowCodec writes as many zeros as the payload had bytes, and decodes nothing.
type hollowCodec struct {
	size  int // if not below 0
	sizes cursor
}

func (c *hollowCodec) Append(dst []byte, _ []float32, _ compress.Step) ([]byte, error) {
	n := c.size
	if n < 0 {
		var err error
		if n, err = c.sizes.next(); err != nil {
			return dst, err
		}
	}
	return append(dst, make([]byte, n)...), nil
}

func (*hollowCodec) AddTo([]float32, float32, []byte, compress.From) error { return nil }

// hollowExchange asks for what the exchange of another run asked for, or gathers
// payloads of one size.
type hollowExchange struct {
	size   int // of the payloads, if not below 0
	sizes  cursor
	floats []float32
	bytes  []byte
}

func (x *hollowExchange) Output([]float32, float32) error   { return nil }
func (x *hollowExchange) Credited([]float32, float32) error { return nil }

func (x *hollowExchange) Begin([]float32, compress.Step) (compress.Op, error) {
	if x.size < 0 {
		return x.ask()
	}
	x.bytes = zeroed(x.bytes, x.size)
	return compress.Op{Kind: compress.OpGather, Bytes: x.bytes}, nil
}

func (x *hollowExchange) Next(compress.Op) (compress.Op, error) {
	if x.size < 0 {
		return x.ask()
	}
	return compress.Op{}, nil
}

func (x *hollowExchange) ask() (op compress.Op, err error) {
	kind, err := x.sizes.next()
	if err != nil {
		return op, err
	}
	op.Kind = compress.OpKind(kind)
	switch op.Kind {
	case compress.OpSum, compress.OpMax:
		wire, err := x.sizes.next()
		if err != nil {
			return op, err
		}
		n, err := x.sizes.next()
		if err != nil {
			return op, err
		}
		x.floats = zeroed(x.floats, n)
		op.Wire, op.Floats = compress.Wire(wire), x.floats
	case compress.OpGather:
		n, err := x.sizes.next()
		if err != nil {
			return op, err
		}
		x.bytes = zeroed(x.bytes, n)
		op.Bytes = x.bytes
	case compress.OpScatter:
		ranks, err := x.sizes.next()
		if err != nil {
			return op, err
		}
		for range ranks {
			n, err := x.sizes.next()
			if err != nil {
				return op, err
			}
			op.Slices = append(op.Slices, make([]byte, n))
		}
	}
	return op, nil
}

// zeroed is v with n zeros.
func zeroed[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	v = v[:n]
	clear(v)
	return v
}

// known says whether the exchange of a block asks for the same in every step,
// whatever the data and the rank.
func known(f compress.Family, b compress.Block, road compress.Road) bool {
	claims, ok := compress.ClaimsOf(f, b)
	if road == compress.RoadOwn { // what it asks for counts, and on all ranks alike
		return ok && (claims.Exact || claims.Rounds > 0) && !claims.AskedBound
	}
	return ok && claims.Exact
}
