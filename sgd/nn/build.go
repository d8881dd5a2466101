package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Layer is one step of a net, described by its options. It is bound to an
// input shape when the net is built; what does not fit is an error then.
type Layer interface {
	// bind adds the layer to the program, reading value x, and returns the value
	// of its output.
	bind(b *builder, x int) (int, error)
}

// Sequential is layers one behind the other, itself a Layer.
type Sequential []Layer

func (s Sequential) bind(b *builder, x int) (int, error) {
	if len(s) == 0 {
		return 0, fmt.Errorf("nn: a sequence needs at least one layer")
	}
	for _, l := range s {
		var err error
		if x, err = l.bind(b, x); err != nil {
			return 0, err
		}
	}
	return x, nil
}

// value is an activation of the program.
type value struct {
	shape  sgd.Shape
	planar bool // stored C×H×W, as batches come; all others are H×W×C
	grad   bool // something trainable lies before it
	store  int  // the value whose memory this one is; usually itself
	pinned bool // read in two places: what follows must not be done in its stead
	tokens bool // numbers of rows of a table, which only an embedding reads
}

// node is one operation of the program: y = f(x), or y = f(x, add).
type node struct {
	bound
	x, y  int
	add   int   // −1 without
	spans []int // needed before it, ready behind it
}

// bound is a layer that has learnt its shapes. It is fixed once the net is
// built.
type bound interface {
	traits() traits
	// instance makes the working part for one Scratch; ops are those of the
	// nodes before it.
	instance(ops []op) op
}

// traits is what the plan of a program must know of an operation.
type traits struct {
	readsX, readsY bool // the backward pass reads x, y
	spoils         bool // the backward pass writes over dy
	passes         bool // what it leaves in dy is dx, and the gradient of add
	alias          bool // y is x: the operation only looks
	gathers        bool // it sums over the batch: what reads y waits for all samples
	whole          bool // it works on the batch as a whole, on several threads by itself
	holds          bool // it reads all of dy at the end of the stage
	weights        int  // of its matrix products in its tasks, and rows that a
	rows           int  // sample has in them; 0 without
	// Of an operation whose products round their operands to bfloat16: it rounds its
	// weights itself, and reads what is kept in that form as it is: x in the forward pass,
	// dy in the backward pass, and both at the end of it.
	rounds                       bool
	halvesX, halvesDY, halvesXDY bool
}

// builder is the program while layers are bound to it.
type builder struct {
	options Options
	layout  sgd.Layout
	inits   []initial        // per span
	flops   []float64        // per span
	places  map[int]rowShape // of spans whose rows are h, w, c here, and c, h, w in PyTorch
	counts  map[string]int
	values  []value
	nodes   []node

	vocabulary int        // of the tokens that value 0 is; 0: it is numbers
	table      *embedding // nil: none so far
}

// newBuilder is an empty program whose value 0 is a batch of shape in.
func newBuilder(in sgd.Shape, o Options) *builder {
	return &builder{options: o, places: map[int]rowShape{}, counts: map[string]int{}, values: []value{{shape: in, planar: true}}}
}

// name numbers the layers of one kind: conv1, conv2, ….
func (b *builder) name(kind string) string {
	b.counts[kind]++
	return fmt.Sprintf("%s%d", kind, b.counts[kind])
}

// claim adds a span; flops is the work of the layer billed to it.
func (b *builder) claim(name string, role sgd.Role, rows, cols int, init initial, flops float64) int {
	b.inits = append(b.inits, init)
	b.flops = append(b.flops, flops)
	return b.layout.Add(name, role, rows, cols)
}

func (b *builder) shape(x int) sgd.Shape { return b.values[x].shape }

// emit adds an operation with an output of shape out and returns its value.
func (b *builder) emit(f bound, x int, out sgd.Shape, spans ...int) int {
	y := len(b.values)
	v := value{shape: out, store: y, grad: len(spans) > 0 || b.values[x].grad}
	v.planar = b.values[x].planar && out == b.shape(x)
	if f.traits().alias {
		v.store = b.values[x].store
	}
	b.values = append(b.values, v)
	b.nodes = append(b.nodes, node{bound: f, x: x, y: y, add: -1, spans: spans})
	return y
}

// attach makes the last node, which computes y, add value s too.
func (b *builder) attach(s int) {
	last := &b.nodes[len(b.nodes)-1]
	last.add = s
	v := &b.values[last.y]
	v.grad = v.grad || b.values[s].grad
}

// last returns the operation that made x if another may be fused into it: if it
// is the last one and nobody else reads x. Otherwise it returns nil.
func (b *builder) last(x int) bound {
	if n := len(b.nodes); n > 0 && b.nodes[n-1].y == x && !b.values[x].pinned {
		return b.nodes[n-1].bound
	}
	return nil
}

// images returns x as H×W×C, for layers that look at pixels.
func (b *builder) images(x int) int {
	s := b.shape(x)
	if !b.values[x].planar {
		return x
	}
	if s.C == 1 || s.H*s.W == 1 { // the two orders are one
		b.values[x].planar = false
		return x
	}
	y := b.emit(toImages(s), x, s)
	b.values[y].planar = false
	return y
}

// toImages turns samples of C×H×W, as batches come, to H×W×C.
type toImages sgd.Shape

func (toImages) traits() traits     { return traits{} }
func (t toImages) instance([]op) op { return &turn{shape: sgd.Shape(t)} }

type turn struct {
	noHooks
	shape sgd.Shape
}

func (t *turn) forward(_ *run, p *microbatch) {
	c, plane := t.shape.C, t.shape.H*t.shape.W
	for s := range p.n() {
		x, y := p.x[s*c*plane:(s+1)*c*plane], p.y[s*c*plane:(s+1)*c*plane]
		for i := range c {
			at := i
			for _, v := range x[i*plane : (i+1)*plane] {
				y[at] = v
				at += c
			}
		}
	}
}

func (t *turn) backward(*run, *microbatch) {} // nothing before it learns
