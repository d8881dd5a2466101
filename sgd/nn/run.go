package nn

import (
	"context"

	"github.com/gradlab/gradlab/internal/conv"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/sgd"
)

// op is the working part of a node in one Scratch.
//
// forward computes the samples of a microbatch. backward adds to the partial sums of
// the microbatch's lane and, unless p.dx is nil, fills dx; x and y are there if its
// traits ask for them. Both are called by several goroutines at a time, with
// microbatches of different lanes and slots.
//
// begin and end are called before and after all microbatches of the stage, in both
// passes, with the whole batch for a microbatch: what of it is not memory of the pass
// is nil.
type op interface {
	begin(r *run, all *microbatch, d direction)
	forward(r *run, p *microbatch)
	backward(r *run, p *microbatch)
	end(r *run, all *microbatch, d direction)
}

type direction bool

const (
	ahead direction = false
	back  direction = true
)

// noHooks is for operations with nothing to begin or end.
type noHooks struct{}

func (noHooks) begin(*run, *microbatch, direction) {}
func (noHooks) end(*run, *microbatch, direction)   {}

// microbatch is some samples of a pass, as one node sees them.
type microbatch struct {
	lo, hi     int  // samples
	lane, slot int  // slot is the goroutine's
	fresh      bool // the first of its lane: sums begin
	x, add, y  []float32
	dy, dx     []float32
	wanted     bool // dx
	// x and dy in bfloat16, where they are not above: see traits.
	xHalf, dyHalf []byte
}

// noSlot is the slot of the batch as a whole, which no goroutine has to itself.
const noSlot = -1

func (p *microbatch) n() int { return p.hi - p.lo }

const (
	maxSlots  = 64      // goroutines a pass uses at most
	smallWork = 1 << 14 // values below which helpers do not pay
)

// run is a pass in progress: its inputs, its callbacks and its memory. It
// belongs to one Scratch.
type run struct {
	*plan
	least        *plan // of the largest samples, for which there is memory
	layout       *sgd.Layout
	half         *halves // how acts and slopes are kept; nil as they are
	ops          []op    // per node
	ctx          context.Context
	params, grad []float32
	need, ready  func(span int) error
	meet         func(sgd.Meeting) error // with workers; nil: there are no others
	failed       error                   // of a sum

	train       bool
	n           int // samples
	first, seed uint64
	threads     int // goroutines at most; set to 0, all there are
	team        par.Team

	input                // the samples
	mem          *memory // where values lie
	acts, slopes kept
	slots        [maxSlots]slot

	// If half: weights as products read them, and one node's x and dy of the
	// whole batch.
	rounded, wholeX, wholeDY []float32
	unfolding                struct {
		to   []float32
		from []byte
	}

	// Of the node with large weights, one a stage: its weights as kernels read them, and
	// partial sums of their gradient.
	packed, partial []float32

	batch microbatch // as a whole

	// The stage in progress.
	at                        *stage
	lanes                     int
	forwardLane, backwardLane func(lane, slot int)
	unfoldPiece               func(i, slot int)
}

// slot is what a goroutine has of its own.
type slot struct {
	microbatch
	local []float32
	space []float32 // for an operation, while it is called
	conv  conv.Space
	loads [buffers][]float32
}

func (r *run) init(p *plan, layout *sgd.Layout, precision Precision) {
	r.plan, r.layout, r.half = p, layout, halvesOf(precision)
	for _, n := range p.nodes {
		r.ops = append(r.ops, n.instance(r.ops))
	}
	r.forwardLane, r.backwardLane, r.unfoldPiece = r.doForward, r.doBackward, r.doUnfold
}

// input is the samples of a pass: numbers, or tokens.
type input struct {
	x      []float32
	tokens []int32
}

// from is the samples behind the first n values.
func (in input) from(n int) input {
	if in.tokens != nil {
		return input{tokens: in.tokens[n:]}
	}
	return input{x: in.x[n:]}
}

// start prepares for a pass over n samples.
func (r *run) start(in input, n int) {
	r.input, r.n = in, n
	if all := min(par.Threads(), maxSlots); r.threads < 1 || r.threads > all {
		r.threads = all
	}
	r.mem = &r.passes
	if r.train {
		r.mem = &r.keeps
	}
	acts := r.mem.acts
	if r.train {
		acts = max(acts, r.least.keeps.acts)
		r.slopes.grow(n*max(r.plan.slopes, r.least.slopes), r.half != nil)
	}
	r.acts.grow(n*acts, r.half != nil)
}

// enter makes a stage the one in progress.
func (r *run) enter(s *stage) {
	r.at, r.lanes = s, s.cutBatch(r.n)
	for i := range min(r.threads, r.lanes) {
		grow(&r.slots[i].local, s.group*s.local)
	}
}

// goAhead runs the forward pass of all stages.
func (r *run) goAhead() error {
	for i := range r.stages {
		s := &r.stages[i]
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.tell(s, ahead); err != nil {
			return err
		}
		r.enter(s)
		r.roundWeights(s)
		for n := s.from; n < s.to; n++ {
			r.ops[n].begin(r, r.whole(n, ahead), ahead)
		}
		r.share(r.lanes, r.n*s.cost, r.forwardLane)
		for n := s.from; n < s.to; n++ {
			r.ops[n].end(r, r.whole(n, ahead), ahead)
		}
		if r.failed != nil {
			return r.failed
		}
	}
	return nil
}

// goBack runs the backward pass of all stages, last to first.
func (r *run) goBack() error {
	for i := len(r.stages) - 1; i >= 0; i-- {
		s := &r.stages[i]
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.enter(s)
		for n := s.to - 1; n >= s.from; n-- {
			if r.wires[n].dy >= 0 {
				r.ops[n].begin(r, r.whole(n, back), back)
			}
		}
		r.share(r.lanes, r.n*s.cost, r.backwardLane)
		for n := s.to - 1; n >= s.from; n-- {
			if r.wires[n].dy >= 0 {
				all := r.whole(n, back)
				if t := r.nodes[n].traits(); r.half != nil && t.holds {
					r.unfold(all, n, t)
				}
				r.ops[n].end(r, all, back)
			}
		}
		if r.failed != nil {
			return r.failed
		}
		if err := r.tell(s, back); err != nil {
			return err
		}
	}
	return nil
}

// tell calls Need or Ready for the spans of a stage.
func (r *run) tell(s *stage, d direction) error {
	call := r.need
	if d == back {
		call = r.ready
	}
	if call == nil {
		return nil
	}
	for i := range s.spans {
		span := s.firstSpan + i
		if d == back {
			span = s.firstSpan + s.spans - 1 - i
		}
		if err := call(span); err != nil {
			return err
		}
	}
	return nil
}

// doForward takes a lane through the stage, microbatch by microbatch.
func (r *run) doForward(lane, slot int) {
	p := &r.slots[slot].microbatch
	for p.begin(r, lane, slot); p.next(r); {
		for n := r.at.from; n < r.at.to; n++ {
			p.show(r, n, ahead)
			r.ops[n].forward(r, p)
			if f := &r.nodes[n]; r.half != nil && !f.traits().alias {
				r.keepValue(p, f.y, p.y)
			}
		}
	}
}

// doBackward takes a lane back.
func (r *run) doBackward(lane, slot int) {
	p := &r.slots[slot].microbatch
	for p.begin(r, lane, slot); p.next(r); {
		for n := r.at.to - 1; n >= r.at.from; n-- {
			w := &r.wires[n]
			if w.dy < 0 {
				continue
			}
			p.show(r, n, back)
			if w.copy >= 0 {
				copy(p.dy, r.gradient(p, w.dy, bufDX, true))
			}
			r.ops[n].backward(r, p)
			if r.half != nil {
				r.keepBack(p, n)
			}
			for _, s := range w.sums {
				dst := r.gradient(p, s.dst, bufDY, false)
				add(dst, r.gradient(p, s.a, bufX, true), r.gradient(p, s.b, bufY, true))
				r.keepGradient(p, s.dst, dst)
			}
		}
	}
}

// whole is the batch as one microbatch, for node n.
func (r *run) whole(n int, d direction) *microbatch {
	p := &r.batch
	*p = microbatch{hi: r.n, slot: noSlot}
	p.show(r, n, d)
	return p
}

// show sets what node n sees of p.
func (p *microbatch) show(r *run, n int, d direction) {
	f := &r.nodes[n]
	t := f.traits()
	p.xHalf, p.dyHalf = nil, nil
	if d == ahead {
		if t.halvesX {
			p.xHalf = r.halfValue(p, f.x)
		}
		p.x = r.value(p, f.x, bufX, p.xHalf == nil)
		p.add, p.y = r.value(p, f.add, bufAdd, true), r.value(p, f.y, bufY, false)
		return
	}
	w := &r.wires[n]
	if t.halvesDY && w.copy < 0 {
		p.dyHalf = r.halfGradient(p, w.left())
	}
	if t.halvesX && !t.holds { // what holds reads x at the end
		p.xHalf = r.halfValue(p, w.x)
	}
	p.x, p.y = r.value(p, w.x, bufX, !t.holds && p.xHalf == nil), r.value(p, w.y, bufY, true)
	p.dy, p.dx, p.wanted = r.gradient(p, w.left(), bufDY, w.copy < 0 && p.dyHalf == nil), r.gradient(p, w.dx, bufDX, false), w.dx >= 0
}

// begin sets p before the first microbatch of a lane.
func (p *microbatch) begin(r *run, lane, slot int) {
	p.lane, p.slot = lane, slot
	p.lo, p.hi = -1, lane*r.n/r.lanes
}

// next moves p to the next microbatch of its lane, if there is one. Microbatches are of
// equal size, give or take a sample.
func (p *microbatch) next(r *run) bool {
	first, end := p.lane*r.n/r.lanes, (p.lane+1)*r.n/r.lanes
	p.fresh = p.lo < 0
	p.lo = p.hi
	if left := end - p.lo; left > 0 {
		group := r.at.group
		if r.at.whole {
			group = r.n
		}
		microbatches := (end - first + group - 1) / group
		p.hi = min(end, p.lo+(end-first+microbatches-1)/microbatches)
	}
	return p.lo < end
}

// value is the part of value v that belongs to a microbatch, nil for v < 0. If it is
// kept in halves it is a buffer, with what is kept there only if it is to be
// read.
func (r *run) value(p *microbatch, v int, b buffer, read bool) []float32 {
	switch {
	case v < 0:
		return nil
	case v == 0 && r.tokens != nil:
		return nil
	case v == 0:
		size := r.mem.values[0].size
		return r.x[p.lo*size : p.hi*size]
	}
	return r.part(p, r.mem.values[v], &r.acts, b, read)
}

// gradient is the part of gradient g that belongs to a microbatch, like value.
func (r *run) gradient(p *microbatch, g int, b buffer, read bool) []float32 {
	if g < 0 {
		return nil
	}
	return r.part(p, r.grads[g], &r.slopes, b, read)
}

func (r *run) part(p *microbatch, at place, of *kept, b buffer, read bool) []float32 {
	switch {
	case p.slot == noSlot && (at.local || r.half != nil):
		return nil
	case at.local:
		l := r.slots[p.slot].local[at.off*r.at.group:]
		return l[: p.n()*at.size : p.n()*at.size]
	case r.half != nil:
		buf := grow(&r.slots[p.slot].loads[b], p.n()*at.size)
		if read {
			lo := at.off*r.n + p.lo*at.size
			r.half.decode(buf, of.half[2*lo:2*(lo+len(buf))])
		}
		return buf
	}
	v := of.full[at.off*r.n:]
	return v[p.lo*at.size : p.hi*at.size : p.hi*at.size]
}

// halfValue is value v of a microbatch as it is kept in two bytes, or nil.
func (r *run) halfValue(p *microbatch, v int) []byte {
	if v <= 0 {
		return nil // the samples
	}
	return r.halfPart(p, r.mem.values[v], &r.acts)
}

// halfGradient is likewise gradient g.
func (r *run) halfGradient(p *microbatch, g int) []byte { return r.halfPart(p, r.grads[g], &r.slopes) }

func (r *run) halfPart(p *microbatch, at place, of *kept) []byte {
	if r.half == nil || at.local {
		return nil
	}
	lo := at.off*r.n + p.lo*at.size
	return of.half[2*lo : 2*(lo+p.n()*at.size)]
}

// add is dst = a + b; dst may be a.
func add(dst, a, b []float32) {
	if &dst[0] != &a[0] {
		copy(dst, a)
	}
	f32.Add(dst, b)
}

// share runs fn over tasks; cost is the number of values touched in
// all.
func (r *run) share(tasks, cost int, fn func(task, slot int)) {
	threads := r.threads
	if cost < smallWork {
		threads = 1
	}
	r.team.Run(tasks, threads, fn)
}

// param is the parameters of a span, slope their gradient.
func (r *run) param(span int) []float32 { return r.layout.View(r.params, span) }
func (r *run) slope(span int) []float32 { return r.layout.View(r.grad, span) }

// space lends slot's workspace of n values, of unspecified contents.
func (r *run) space(slot, n int) []float32 { return grow(&r.slots[slot].space, n) }

// grow returns *buf with length n, allocating only when it is too short. The
// contents are unspecified.
func grow[E any](buf *[]E, n int) []E {
	if cap(*buf) < n {
		*buf = make([]E, n)
	}
	*buf = (*buf)[:n]
	return *buf
}
