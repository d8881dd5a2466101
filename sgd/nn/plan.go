package nn

import "slices"

// The plan of a program says in which microbatches it runs and where everything lies.
//
// Nodes are cut into stages. Within a stage a few samples at a time go through
// all of its nodes, so that what one node writes is in cache when the next one
// reads it, and often need never be memory of its own. A stage ends where
// something must be known of the whole batch: behind the sums of a batch norm,
// and around the products of dense layers. The backward pass has the same
// stages, back to front. For what is still ahead in the communication of
// gradients, a stage has at most one layer with large weights.
//
// Lanes are what goroutines take: the samples of lane l of L are l·N/L to
// (l+1)·N/L − 1, in microbatches, with partial sums of their own; sums are added up
// in the order of lanes. Lanes and microbatches follow from shapes and N alone, and
// so do the bits.

const (
	maxLanes         = 16
	microbatchFloats = 1 << 16 // of activations that a microbatch touches: 256 KiB
	leastRows        = 64      // that a matrix product should have
	weightTraffic    = 1 << 20 // weights that all lanes of a stage read, but at least four do
)

// stage is a run of nodes, and how a batch is cut in it.
type stage struct {
	from, to int // nodes
	whole    bool
	group    int // samples in a microbatch at most, if not whole
	least    int // samples that a lane should have
	lanes    int // at most
	local    int // values a sample has in the memory of a microbatch
	cost     int // of a sample, in values touched
	// Spans of its nodes, which lie together.
	firstSpan, spans int
}

// place is where a value or gradient lies: size values a sample, from off
// (in values a sample) of the memory of the pass or, if local, of the microbatch.
type place struct {
	off, size int
	local     bool
}

// wiring is what a node reads and writes in the backward pass: x and y are
// values, the rest gradients, −1 for none.
type wiring struct {
	x, y int
	dy   int
	copy int // dy is copied here first: others still read it, and the node spoils it
	dx   int
	sums []sum // then these
}

// sum is dst = a + b, on gradients; dst may be a.
type sum struct{ dst, a, b int }

type plan struct {
	nodes  []node
	wires  []wiring // per node
	stages []stage
	keeps  memory  // values of a pass that has a way back
	passes memory  // those of an evaluation: they lie over what nobody reads any more
	grads  []place // per gradient
	logits int     // the gradient of the loss
	slopes int     // values a sample has of gradients in the memory of a pass
}

// memory is where the values of a pass lie; the input of the net lies elsewhere.
type memory struct {
	values []place // per value
	acts   int     // values a sample has in the memory of the pass
}

// lifetime is a stay in memory, first to last inclusive on some clock.
type lifetime struct {
	place
	first, last int
}

// newPlan lays out the program that ends in value out.
func newPlan(b *builder, out int) *plan {
	p := &plan{nodes: b.nodes}
	p.cut()
	stageOf := make([]int, len(p.nodes)+1)
	for i, s := range p.stages {
		for n := s.from; n < s.to; n++ {
			stageOf[n] = i
		}
	}
	stageOf[len(p.nodes)] = len(p.stages) // the loss

	p.placeValues(b, out, stageOf)
	p.placeGradients(b, out, stageOf)
	for i := range p.stages {
		p.size(&p.stages[i], b)
	}
	return p
}

// cut finds the stages.
func (p *plan) cut() {
	weights := false // in the stage so far
	for i, n := range p.nodes {
		t := n.traits()
		if i == 0 || t.whole || p.nodes[i-1].traits().whole || p.nodes[i-1].traits().gathers || t.weights > 0 && weights {
			p.stages = append(p.stages, stage{from: i, whole: t.whole})
			weights = false
		}
		weights = weights || t.weights > 0
		p.stages[len(p.stages)-1].to = i + 1
	}
}

// size decides on microbatches and lanes.
func (p *plan) size(s *stage, b *builder) {
	s.lanes, s.group, s.least = maxLanes, 1, 1
	touched := b.shape(p.nodes[s.from].x).Len()
	for _, n := range p.nodes[s.from:s.to] {
		t := n.traits()
		if !t.alias {
			touched += b.shape(n.y).Len()
		}
		s.cost += t.weights * t.rows
		if t.weights > 0 {
			s.lanes = min(maxLanes, max(4, weightTraffic/t.weights))
			// The more weights a product reads, the more rows should share them.
			s.least = (leastRows + t.rows - 1) / t.rows
			s.group = (min(max(leastRows, t.weights/1024), 4*leastRows) + t.rows - 1) / t.rows
		}
		if len(n.spans) > 0 && s.spans == 0 {
			s.firstSpan = n.spans[0]
		}
		s.spans += len(n.spans)
	}
	s.cost += touched
	s.group = max(s.group, microbatchFloats/touched)
	if s.whole {
		s.lanes, s.group = 1, 0
	}
}

// cutBatch is how many lanes n samples have in the stage: two, if there are as
// many samples.
func (s *stage) cutBatch(n int) int {
	if s.whole {
		return 1
	}
	return min(max(2, n/s.least), s.lanes, n)
}

// placeValues gives memory to activations: for good to what the backward pass
// or another stage reads, within the microbatch to the rest. In an evaluation what is
// kept lasts as long as stages read it.
func (p *plan) placeValues(b *builder, out int, stageOf []int) {
	life := make([]lifetime, len(b.values)) // on the clock of nodes
	kept := make([]bool, len(b.values))
	stage := make([]int, len(b.values))
	for i := range life {
		life[i].size, life[i].first = b.values[i].shape.Len(), -1
	}
	kept[b.values[out].store] = true
	for i, n := range p.nodes {
		read := func(v int, keep bool) {
			v = b.values[v].store
			life[v].last = i
			kept[v] = kept[v] || keep || stage[v] != stageOf[i]
		}
		t := n.traits()
		read(n.x, t.readsX)
		if n.add >= 0 {
			read(n.add, false)
		}
		y := b.values[n.y].store
		if life[y].first < 0 {
			life[y].first, life[y].last, stage[y] = i, i, stageOf[i]
		}
		read(n.y, t.readsY || p.stages[stageOf[i]].whole)
	}
	kept[0] = false
	locals := make([][]*lifetime, len(p.stages))
	var across []*lifetime // on the clock of stages
	brief := slices.Clone(life)
	for v := 1; v < len(life); v++ {
		switch {
		case b.values[v].store != v:
		case kept[v]:
			life[v].off = p.keeps.acts
			p.keeps.acts = life[v].end()
			l := &brief[v]
			l.first, l.last = stage[v], stageOf[l.last]
			if v == b.values[out].store {
				l.last = len(p.stages)
			}
			across = append(across, l)
		default:
			life[v].local = true
			locals[stage[v]] = append(locals[stage[v]], &life[v])
		}
	}
	for s, l := range locals {
		p.stages[s].local = pack(l)
	}
	p.passes.acts = pack(across)
	for v := range life {
		at := b.values[v].store
		p.keeps.values = append(p.keeps.values, life[at].place)
		if kept[at] {
			p.passes.values = append(p.passes.values, brief[at].place)
		} else {
			p.passes.values = append(p.passes.values, life[at].place)
		}
	}
}

// slopes are the gradients of a plan's values while they are placed.
type slopes struct {
	life  []*lifetime // on the clock of nodes, which runs backward: first ≥ last
	refs  []int       // values a gradient stands for
	whole []bool      // it must be there for the whole batch
	of    []int       // the gradient of a value, −1 before there is one
}

// fresh is a new gradient of so many elements, first written at a node.
func (s *slopes) fresh(size, at int) int {
	s.life = append(s.life, &lifetime{place{size: size}, at, at})
	s.refs, s.whole = append(s.refs, 0), append(s.whole, false)
	return len(s.life) - 1
}

// bind lets a gradient stand for a value.
func (s *slopes) bind(value, g int) { s.of[value] = g; s.refs[g]++ }

// give adds gradient g, as node i leaves it, to what a value has.
func (s *slopes) give(value, g, i int, w *wiring) {
	old := s.of[value]
	switch {
	case old < 0:
		s.bind(value, g)
		return
	case s.refs[old] > 1:
		s.refs[old]--
		s.bind(value, s.fresh(s.life[old].size, i))
	}
	w.sums = append(w.sums, sum{s.of[value], old, g})
}

// placeGradients wires the backward pass. A value read twice has a gradient of
// two terms: the first to come is passed on where that costs nothing, later
// ones are added, and what others still read is never written over.
func (p *plan) placeGradients(b *builder, out int, stageOf []int) {
	s := &slopes{of: make([]int, len(b.values))}
	for i := range s.of {
		s.of[i] = -1
	}
	p.logits = s.fresh(b.shape(out).Len(), len(p.nodes))
	s.bind(out, p.logits)
	s.whole[p.logits] = true

	var held []int // read again at the end of the stage, so nobody may write over them
	p.wires = make([]wiring, len(p.nodes))
	for i := len(p.nodes) - 1; i >= 0; i-- {
		if stageOf[i] != stageOf[i+1] {
			for _, g := range held {
				s.refs[g]--
			}
			held = held[:0]
		}
		n, t, w := p.nodes[i], p.nodes[i].traits(), &p.wires[i]
		*w = wiring{x: -1, y: -1, dy: s.of[n.y], copy: -1, dx: -1}
		if t.readsX {
			w.x = n.x
		}
		if t.readsY {
			w.y = n.y
		}
		if w.dy < 0 {
			continue // nothing to learn here
		}
		dy := w.dy
		if t.spoils && s.refs[dy] > 1 {
			w.copy = s.fresh(s.life[dy].size, i)
			s.refs[dy]--
			dy = w.copy
			s.refs[dy]++
		}
		if t.holds {
			s.whole[dy] = true
			held = append(held, dy)
			s.refs[dy]++
		}
		switch {
		case !b.values[n.x].grad:
		case t.passes:
			s.give(n.x, dy, i, w)
		default:
			w.dx = s.fresh(b.shape(n.x).Len(), i)
			s.give(n.x, w.dx, i, w)
		}
		if n.add >= 0 && b.values[n.add].grad {
			s.give(n.add, dy, i, w)
		}
		s.refs[dy]--
		s.touch(i, w, dy)
	}
	p.shareRoom(s, stageOf)
}

// touch notes that node i reads or writes the gradients it is wired to, and dy.
func (s *slopes) touch(i int, w *wiring, dy int) {
	for _, g := range []int{w.dy, dy, w.dx} {
		if g >= 0 {
			s.life[g].last = i
		}
	}
	for _, t := range w.sums {
		s.life[t.dst].last, s.life[t.a].last, s.life[t.b].last = i, i, i
	}
}

// shareRoom places gradients. What lives in one stage lives in the microbatch, where
// activations lie in the forward pass.
func (p *plan) shareRoom(s *slopes, stageOf []int) {
	var across []*lifetime
	locals := make([][]*lifetime, len(p.stages))
	for g, l := range s.life {
		first, last := stageOf[l.first], stageOf[l.last]
		if l.local = !s.whole[g] && first == last && !p.stages[first].whole; l.local {
			l.first, l.last = -l.first, -l.last
			locals[first] = append(locals[first], l)
		} else {
			l.first, l.last = -first, -last
			across = append(across, l)
		}
	}
	for i, l := range locals {
		p.stages[i].local = max(p.stages[i].local, pack(l))
	}
	p.slopes = pack(across)
	for _, l := range s.life {
		p.grads = append(p.grads, l.place)
	}
}

// pack places what does not live at one time over each other, first fit and at
// whole cache lines, and returns the room taken.
func pack(all []*lifetime) (room int) {
	var placed []*lifetime // in the order of off
	for _, l := range all {
		l.off = 0
		for _, o := range placed {
			if o.first > l.last || l.first > o.last || o.end() <= l.off {
				continue
			}
			if l.end() <= o.off {
				break
			}
			l.off = o.end()
		}
		at, _ := slices.BinarySearchFunc(placed, l.off, func(o *lifetime, off int) int { return o.off - off })
		placed = slices.Insert(placed, at, l)
		room = max(room, l.end())
	}
	return room
}

// end is where the next one may begin: at a cache line.
func (p place) end() int { return p.off + (p.size+15)&^15 }
