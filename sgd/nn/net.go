package nn

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Net is a bound stack of layers under a softmax cross-entropy loss; it
// implements sgd.Model.
type Net struct {
	in        sgd.Sample
	smoothing float64
	layers    Sequential // as given
	options   Options
	layout    sgd.Layout
	inits     []initial
	flops     []float64
	plan      *plan
	out       int              // the value of the logits
	modules   []string         // PyTorch's, by layers with parameters; nil: those of the layout
	forms     forms            // of modules in files
	places    map[int]rowShape // see builder
	first     []float32        // weights to begin with, whatever the seed; nil: the layers' laws
	looks     []look           // at each sample of an evaluation; at most one: as it is
	whole     *Net             // the net of larger samples that it shares scratch with; nil: none
}

var (
	_ sgd.Model     = (*Net)(nil)
	_ sgd.Resizable = (*Net)(nil)
	_ sgd.Portable  = (*Net)(nil)
	_ sgd.Scoring   = (*Net)(nil)
)

// An evaluation's memory is bounded: larger batches go through in chunks of evalMost
// samples, or of as many as fit evalFloats of activations, but evalLeast at least. What a
// sample scores does not depend on it.
const (
	evalMost   = 128
	evalLeast  = 16
	evalFloats = 8 << 20
)

// New binds layers to samples of the form in. The last layer must have one output per class
// and label. The loss of a sample is the mean over its labels. smoothing in [0, 1) smooths
// the labels of the training loss; Eval reports the plain cross-entropy. Errors name the
// layer that does not fit.
func New(in sgd.Sample, smoothing float64, layers ...Layer) (*Net, error) {
	if in.C < 1 || in.H < 1 || in.W < 1 || in.Classes < 1 || in.Vocabulary < 0 || in.Targets < 0 {
		return nil, fmt.Errorf("nn: no net for samples of %v", in)
	}
	if !(smoothing >= 0 && smoothing < 1) {
		return nil, fmt.Errorf("nn: label smoothing must be in [0, 1), not %g", smoothing)
	}
	return build(in, smoothing, layers, Options{LossScale: 1})
}

// newNamed is New of layers that PyTorch knows by other names: modules has one for
// each layer with parameters, in forward order.
func newNamed(in sgd.Sample, smoothing float64, modules []string, layers Sequential) (*Net, error) {
	n, err := New(in, smoothing, layers...)
	if err != nil {
		return nil, err
	}
	n.modules = modules
	return n, nil
}

// outputs says how many outputs a net for samples needs.
func outputs(in sgd.Sample) string {
	if in.Labels() > 1 {
		return fmt.Sprintf("%d labels of %d classes", in.Labels(), in.Classes)
	}
	return fmt.Sprintf("%d classes", in.Classes)
}

func build(in sgd.Sample, smoothing float64, layers Sequential, o Options) (*Net, error) {
	b := newBuilder(in.Shape, o)
	b.values[0].tokens = in.Vocabulary > 0
	b.vocabulary = in.Vocabulary
	out, err := layers.bind(b, 0)
	if err != nil {
		return nil, err
	}
	if s := b.shape(out); s.Len() != in.Labels()*in.Classes {
		return nil, fmt.Errorf("nn: the net ends in %v = %d values, want %s", s, s.Len(), outputs(in))
	}
	if b.values[out].tokens || slices.ContainsFunc(b.nodes, func(n node) bool {
		_, ok := n.bound.(*embedding)
		return b.values[n.x].tokens && !ok
	}) {
		return nil, fmt.Errorf("nn: samples are tokens; the first layer must be an Embedding")
	}
	return &Net{
		in: in, smoothing: smoothing, layers: layers,
		options: o, layout: b.layout, inits: b.inits, flops: b.flops, plan: newPlan(b, out), out: out,
		places: b.places,
	}, nil
}

// Layout lists the spans in forward order. The caller must not change it.
func (n *Net) Layout() sgd.Layout { return n.layout }

// SpanFLOPs bills each layer to its first span; layers without parameters,
// which are a small part of the work, to nobody.
func (n *Net) SpanFLOPs() []float64 { return append([]float64(nil), n.flops...) }

// Metrics are accuracy, loss and, of more than ten classes, the share of labels among the
// five best. Where samples have several labels the loss comes first. Of texts there are the
// perplexity and, where the set says how many bytes a token has, bits a byte.
func (n *Net) Metrics() []sgd.Metric {
	all := []sgd.Metric{sgd.Accuracy, sgd.Loss}
	if n.in.Labels() > 1 {
		all = []sgd.Metric{sgd.Loss, sgd.Accuracy}
		if n.in.Vocabulary > 0 {
			all = append(all, sgd.Perplexity)
		}
		if n.in.Bytes > 0 {
			all = append(all, sgd.BitsPerByte)
		}
		return all
	}
	if n.in.Classes > 10 {
		all = append(all, sgd.Top5)
	}
	return all
}

// drawnAtOnce is how many initial weights a goroutine draws at a time.
const drawnAtOnce = 1 << 14

// Init fills params with the initial weights of seed, each value by its
// address (seed, "init", span, index), or with those the net was given by Starting. It panics if params has not the
// layout's size.
func (n *Net) Init(params []float32, seed uint64) {
	if len(params) != n.layout.Size() {
		panic(fmt.Sprintf("nn: Init of %d values, the layout has %d", len(params), n.layout.Size()))
	}
	if n.first != nil {
		copy(params, n.first)
		return
	}
	var team par.Team
	for i, s := range n.layout.Spans {
		key, to := rng.New(seed, "init").With(uint64(i)), params[s.Off:s.Off+s.Len()]
		team.Run((len(to)+drawnAtOnce-1)/drawnAtOnce, par.Threads(), func(piece, _ int) {
			lo := piece * drawnAtOnce
			for j := lo; j < min(lo+drawnAtOnce, len(to)); j++ {
				to[j] = float32(n.inits[i](key, uint64(j)))
			}
		})
	}
}

// NewScratch returns working memory for one pass at a time. It starts small
// and grows to the largest batch it meets.
func (n *Net) NewScratch() sgd.Scratch { return newScratch(n) }

// Grad runs one training pass: see sgd.Model. The context is looked at between
// layers. Apart from errors of its callbacks and of the context it fails only
// on slices of the wrong length, labels out of range and foreign scratch.
func (n *Net) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	s, err := n.scratch(p.Scratch)
	if err != nil {
		return 0, err
	}
	if len(p.Params) != n.layout.Size() || len(p.Grad) != n.layout.Size() {
		return 0, fmt.Errorf("nn: Grad with %d parameters and %d gradients, the layout has %d",
			len(p.Params), len(p.Grad), n.layout.Size())
	}
	if b.N < 1 {
		return 0, fmt.Errorf("nn: Grad of an empty batch")
	}
	if err := n.check(b); err != nil {
		return 0, err
	}
	s.ctx, s.params, s.grad, s.need, s.ready, s.meet = ctx, p.Params, p.Grad, p.Need, p.Ready, p.Meet
	if p.Meet != nil && n.options.repeats() {
		return 0, fmt.Errorf("nn: statistics over workers need backward passes that none of them repeats: set a loss scale, or another precision than float16")
	}
	s.first, s.seed, s.threads = b.First, b.Seed, p.Threads
	s.other, s.share = b.Other, b.Share
	return s.gradPass(n.inputs(b))
}

// Eval scores a batch in inference mode: see sgd.Model. It fails as Grad does.
func (n *Net) Eval(params []float32, scratch sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	s, err := n.scratch(scratch)
	if err != nil {
		return sgd.Score{}, err
	}
	if len(params) != n.layout.Size() {
		return sgd.Score{}, fmt.Errorf("nn: Eval with %d parameters, the layout has %d", len(params), n.layout.Size())
	}
	if err := n.check(b); err != nil {
		return sgd.Score{}, err
	}
	s.ctx, s.params, s.threads = context.Background(), params, 0
	return s.evalPass(n.inputs(b))
}

// Scores is what the last layer gives for a batch: see sgd.Scoring. It fails as Grad does.
func (n *Net) Scores(params []float32, scratch sgd.Scratch, b sgd.Batch) ([]float32, error) {
	s, err := n.scratch(scratch)
	if err != nil {
		return nil, err
	}
	if len(params) != n.layout.Size() {
		return nil, fmt.Errorf("nn: Scores with %d parameters, the layout has %d", len(params), n.layout.Size())
	}
	b.Y, b.Share = make([]int32, b.N*n.in.Labels()), nil
	if err := n.check(b); err != nil {
		return nil, err
	}
	defer s.finish()
	s.ctx, s.params, s.threads, s.train = context.Background(), params, 0, false
	in, _ := n.inputs(b)
	return s.outputs(in, b.N)
}

func (n *Net) scratch(s sgd.Scratch) (*scratch, error) {
	own, ok := s.(*scratch)
	if !ok || own.whole != n.family() {
		return nil, fmt.Errorf("nn: scratch must come from NewScratch of the same net, not %T", s)
	}
	own.enterNet(n)
	return own, nil
}

// inputs are the samples of a batch, as numbers or tokens, and their labels.
func (n *Net) inputs(b sgd.Batch) (in input, labels []int32) {
	size := b.N * n.in.Len()
	if n.in.Vocabulary > 0 {
		in.tokens = b.Tokens[:size]
	} else {
		in.x = b.X[:size]
	}
	return in, b.Y[:b.N*n.in.Labels()]
}

func (n *Net) checkTokens(b sgd.Batch) error {
	if n.in.Vocabulary == 0 {
		return nil
	}
	for i, t := range b.Tokens[:b.N*n.in.Len()] {
		if t < 0 || int(t) >= n.in.Vocabulary {
			return fmt.Errorf("nn: token %d of sample %d is not in 0..%d", t, i/n.in.Len(), n.in.Vocabulary-1)
		}
	}
	return nil
}

func (n *Net) check(b sgd.Batch) error {
	if b.Side != 0 && (b.Side != n.in.H || b.Side != n.in.W) || b.Side == 0 && n.whole != nil {
		return fmt.Errorf("nn: a batch of side %d for a net of %v", b.Side, n.in)
	}
	given, labels := len(b.X), n.in.Labels()
	if n.in.Vocabulary > 0 {
		given = len(b.Tokens)
	}
	if b.N < 0 || given < b.N*n.in.Len() || len(b.Y) < b.N*labels {
		return fmt.Errorf("nn: a batch of %d samples of %v has %d inputs and %d labels", b.N, n.in, given, len(b.Y))
	}
	if err := n.checkTokens(b); err != nil {
		return err
	}
	if len(b.Share) > 0 && labels > 1 {
		return fmt.Errorf("nn: samples of %d labels are mixed", labels)
	}
	if len(b.Share) > 0 && (len(b.Share) < b.N || len(b.Other) < b.N) {
		return fmt.Errorf("nn: a batch of %d samples has %d shares and %d other labels", b.N, len(b.Share), len(b.Other))
	}
	for i := range len(b.Share[:min(len(b.Share), b.N)]) {
		if y := b.Other[i]; y < 0 || int(y) >= n.in.Classes || !(b.Share[i] >= 0 && b.Share[i] <= 1) {
			return fmt.Errorf("nn: sample %d is mixed with label %d by a share of %g", i, y, 1-b.Share[i])
		}
	}
	for i, y := range b.Y[:b.N*labels] {
		if y < 0 || int(y) >= n.in.Classes {
			return fmt.Errorf("nn: label %d of sample %d is not in 0..%d", y, i/labels, n.in.Classes-1)
		}
	}
	return nil
}
