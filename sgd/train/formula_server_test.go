package train_test

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/replicas"
	"github.com/gradlab/gradlab/sgd/train/sandblaster"
	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

// bySum is synchronous SGD: in every step the mean of all workers' gradients.
func bySum(t *testing.T, j *train.Job, _ []event) vec {
	w := begin(j)
	r := newRule(j.Optimizer, len(w))
	for s := range j.Updates {
		var grads []vec
		for rank := range j.Workers {
			grads = append(grads, gradientAt(t, j, w, rank, s))
		}
		add(w, -1, r.update(t, meanOf(grads), learningRate(t, j, s), s))
	}
	return w
}

// late is a gradient, or a sum of several, that has come to the server.
type late struct {
	from     int
	grad     vec
	versions []int // that the gradients were computed on
}

// shard is the server computed a second time: policies asp and softsync, one
// shard.
type shard struct {
	t    *testing.T
	j    *train.Job
	w    vec
	sent []vec // what workers compute on, by version
	r    *rule
	f    staletest.Formula

	held        []late
	count       int     // of gradients held
	late, taken float64 // staleness and number of gradients applied
}

func newShard(t *testing.T, j *train.Job) *shard {
	w := begin(j)
	f := staletest.Formulas[staleness.Correctors.Name(j.Corrector)](j.Corrector, len(w), j.Workers)
	return &shard{t: t, j: j, w: w, sent: []vec{dup(w)}, r: newRule(j.Optimizer, len(w)), f: f}
}

// version is the number of updates.
func (s *shard) version() int { return len(s.sent) - 1 }

// group is the number of gradients that an update waits for.
func (s *shard) group() int {
	if p, ok := s.j.Policy.(staleness.Softsync); ok { // the paper's, not the claim
		return max(1, s.j.Workers/p.N)
	}
	return 1
}

// push takes what a worker has computed, and makes the update that is due.
func (s *shard) push(p late) {
	if s.version() == s.j.Updates {
		return
	}
	s.held = append(s.held, p)
	if s.count += len(p.versions); s.count < s.group() {
		return
	}
	slices.SortStableFunc(s.held, func(a, b late) int { return a.from - b.from })
	version, lr := s.version(), learningRate(s.t, s.j, s.version())
	sum, passed := make(vec, len(s.w)), s.late
	for _, p := range s.held {
		scale, past := 0.0, staleness.Past{}
		for _, v := range p.versions {
			past = staleness.Past{Delay: version - v, Worker: p.from, Update: version, Mean: passed / max(1, s.taken), Rate: lr}
			if s.f.Scale == nil {
				scale++
			} else {
				scale += s.f.Scale(past)
			}
			s.late += float64(past.Delay)
		}
		g := p.grad
		if s.f.Amend != nil && !atWorker(s.j) {
			g = s.f.Amend(g, s.w, s.sent[p.versions[0]], past)
		}
		add(sum, scale/float64(len(p.versions))/float64(s.count), g)
	}
	u := s.r.update(s.t, sum, lr, version)
	add(s.w, -1, u)
	if s.f.Moved != nil {
		for i := range u {
			u[i] /= lr
		}
		s.f.Moved(u, lr)
	}
	s.taken += float64(s.count)
	s.held, s.count = nil, 0
	next := dup(s.w)
	if s.f.Ahead != nil { // the rate of a single gradient of the next update
		next = s.f.Ahead(s.w, learningRate(s.t, s.j, version+1)/float64(s.group()))
	}
	s.sent = append(s.sent, next)
}

func atWorker(j *train.Job) bool { return j.Corrector.Traits().AtWorker }

// byServer follows pushes in the order in which they reach the server.
func byServer(t *testing.T, j *train.Job, events []event) vec {
	s := newShard(t, j)
	for _, e := range events {
		if e.rank != j.Workers || e.deed != receives || e.Tag != train.TagPush {
			continue
		}
		w := int(e.From)
		g := gradientAt(t, j, s.sent[e.Version], w, int(e.Step))
		if atWorker(j) {
			g = s.f.Amend(g, nil, nil, staleness.Past{Worker: w})
		}
		s.push(late{w, g, []int{int(e.Version)}})
	}
	return s.w
}

// Every corrector is as published in the engine too: what a worker was sent, how
// late it is, the rate and the mean staleness are what its formula means by them.
func TestCorrectorsInTheEngine(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for i, text := range staletest.Tried {
		c := staleness.Correctors.MustParse(text)
		for k, p := range []string{"asp", "softsync(n=2)"} {
			if !patience.Long && (k != i%2 || i%3 != 0) {
				continue
			}
			t.Run(p+"/"+text, func(t *testing.T) {
				t.Parallel()
				opts := []option{policy(p), corrector(text), optimizer("momentum(beta=0.5)"), rate("cosine(lr=0.03,end=0.003)"), workers(6), func(j *train.Job) { j.Updates = 90 }}
				if c.Traits().Momentum {
					opts = append(opts, optimizer("sgd"))
				}
				least := 3e-5
				switch c.(type) {
				case staleness.FASGD: // whose variance is a small difference of float32s
					opts, least = append(opts, rate("cosine(lr=0.0003)")), 1e-3
				case staleness.DANA, staleness.DANADC, staleness.DANASlim, staleness.MultiASGD:
					opts = append(opts, rate("cosine(lr=0.008,end=0.001)"))
				}
				j := job(t, opts...)
				net := &tape{Net: simulated(0)}
				o, _ := runOn(t, net, j, nil)
				if d := apartFrom(byServer(t, j, net.events), o.Params); !(d < least) {
					t.Errorf("relative distance to its formula is %.3g", d)
				}
			})
		}
	}
}

// byTree follows the sums that reach the root, and which gradients are in them.
func byTree(t *testing.T, j *train.Job, events []event) vec {
	s := newShard(t, j)
	rolls := map[int][]comm.Header{}
	for _, e := range events {
		if e.rank != j.Workers || e.deed != receives || e.Tag != train.TagRelay {
			continue
		}
		from := int(e.From)
		var of []comm.Header
		switch e.Code {
		case train.CodeRoll:
			roll, err := train.ReadRoll(comm.Frame{Header: e.Header, Body: e.body})
			if err != nil {
				t.Fatal(err)
			}
			rolls[from] = roll
			continue
		case train.CodePush:
			of = []comm.Header{e.Header}
		case train.CodeSum:
			of = rolls[from]
		default:
			continue
		}
		p := late{from: from, grad: make(vec, len(s.w))}
		for _, h := range of {
			add(p.grad, 1, gradientAt(t, j, s.sent[h.Version], int(h.From), int(h.Step)))
			p.versions = append(p.versions, int(h.Version))
		}
		s.push(p)
	}
	return s.w
}

// byReplicas is Downpour SGD (Dean et al. 2012): a replica goes on from what it
// fetched by its own gradients, and pushes their sums.
func byReplicas(t *testing.T, j *train.Job, events []event) vec {
	type fetch struct {
		step, version int
		w             vec
	}
	type replica struct {
		w       vec
		version int
		fetched []fetch // not taken up yet
		sum     vec
		step    int
	}
	s := newShard(t, j)
	type pull struct {
		r         *replica
		at, least int // step, version
	}
	var waiting []pull // during the warm start, for the version it ends with
	answer := func() {
		waiting = slices.DeleteFunc(waiting, func(p pull) bool {
			if s.version() < p.least {
				return false
			}
			p.r.fetched = append(p.r.fetched, fetch{p.at, s.version(), dup(s.w)})
			return true
		})
	}
	rs := make([]replica, j.Workers)
	for i := range rs {
		rs[i].sum = make(vec, len(s.w))
	}
	for _, e := range events {
		if e.rank != j.Workers || e.deed != receives {
			continue
		}
		r, rank := &rs[max(0, min(int(e.From), j.Workers-1))], int(e.From)
		switch e.Tag {
		case train.TagPull:
			at := int(e.Step) // the step that takes it up
			if j.Plan().Beside && at > 0 {
				at += j.Mode.(replicas.Downpour).NFetch
			}
			if len(r.fetched) > 0 && r.fetched[0].step == 0 && at == 0 {
				t.Fatal("two first fetches")
			}
			waiting = append(waiting, pull{r, at, int(e.Version)})
			answer()
		case train.TagPush:
			for ; r.step < int(e.Step); r.step++ {
				if len(r.fetched) > 0 && r.fetched[0].step <= r.step {
					r.w, r.version = dup(r.fetched[0].w), r.fetched[0].version
					r.fetched = r.fetched[1:]
				}
				g := gradientAt(t, j, r.w, rank, r.step)
				add(r.sum, 1, g)
				add(r.w, -ownRate(t, j, r.step), g)
			}
			s.push(late{rank, r.sum, []int{r.version}})
			r.sum = make(vec, len(s.w))
			answer()
		}
	}
	return s.w
}

// byElastic is elastic averaging (Zhang et al. 2015): x ← x + f − step and
// x̄ ← x̄ − f with f = α·(x̄ − x), once in tau steps; between them x ← x − step.
func byElastic(t *testing.T, j *train.Job, events []event) vec {
	m := j.Mode.(replicas.EASGD)
	alpha := m.Alpha
	if alpha == 0 {
		alpha = m.Beta / float64(j.Workers)
	}
	centre := begin(j)
	x, seen := make([]vec, j.Workers), make([]vec, j.Workers)
	rules, steps := make([]*rule, j.Workers), make([]int, j.Workers)
	for w := range x {
		x[w], rules[w] = dup(centre), newRule(j.Optimizer, len(centre))
	}
	step := func(w int, force vec) {
		g := gradientAt(t, j, x[w], w, steps[w])
		add(x[w], 1, force)
		add(x[w], -1, rules[w].update(t, g, ownRate(t, j, steps[w]), steps[w]))
		steps[w]++
	}
	none := make(vec, len(centre))
	together := j.Policy.Traits(j.Workers).Synchronous
	var forces []vec
	for updates := 0; len(events) > 0 && updates < j.Updates; events = events[1:] {
		e := events[0]
		if e.rank != j.Workers || e.deed != receives || e.Tag != train.TagPull && e.Tag != train.TagPush {
			continue
		}
		w := int(e.From)
		if e.Tag == train.TagPull {
			for steps[w] < int(e.Step) {
				step(w, none)
			}
			if (steps[w]+1)%m.Tau != 0 {
				t.Errorf("worker %d fetches in its step %d", w, steps[w])
			}
			seen[w] = dup(centre)
			continue
		}
		f := make(vec, len(centre))
		add(f, alpha, seen[w])
		add(f, -alpha, x[w])
		step(w, f)
		forces = append(forces, f)
		if together && len(forces) < j.Workers {
			continue
		}
		for _, f := range forces {
			add(centre, -1, f)
		}
		forces = nil
		updates++
	}
	return centre
}

// byBFGS is L-BFGS (Nocedal 1980) with the approximate inverse Hessian as a
// matrix, made anew in each iteration from the pairs it remembers:
//
//	H ← (I − ρ·s·yᵀ)·H·(I − ρ·y·sᵀ) + ρ·s·sᵀ,   ρ = 1/(s·y)
//
// from (s·y)/(y·y)·I of the newest pair on, oldest pair first.
func byBFGS(t *testing.T, j *train.Job, _ []event) vec {
	m := j.Mode.(sandblaster.Sandblaster)
	x := begin(j)
	evaluations := 0
	// evaluate is the mean loss and gradient over the next batch, or all samples.
	evaluate := func(x vec, batch int) (float64, vec) {
		evaluations++
		d := sgd.Draw{N: j.Data.Train.Len()}
		if m.Portions > 0 {
			d = sgd.Draw{First: uint64(batch * m.Portions * j.Batch), N: m.Portions * j.Batch}
		}
		loss, g := lossAt(t, j, x, d)
		return loss, g
	}
	type pair struct{ s, y vec }
	var pairs []pair
	loss, g := evaluate(x, 0)
	for it := range j.Updates {
		if it > 0 && m.Portions > 0 { // another batch, another function
			loss, g = evaluate(x, it)
		}
		d := applied(inverse(len(x), func(yield func(s, y vec)) {
			for _, p := range pairs {
				yield(p.s, p.y)
			}
		}), g)
		length := 1.0
		if len(pairs) == 0 {
			length = 1 / root(dot(g, g))
		}
		slope := -dot(d, g)
		for try := 0; ; try++ {
			next := dup(x)
			add(next, -length, d)
			l, gNext := evaluate(next, it)
			if l <= loss+1e-4*length*slope {
				s, y := dup(next), dup(gNext)
				add(s, -1, x)
				add(y, -1, g)
				if dot(s, y) > 1e-10*dot(y, y) {
					pairs = append(pairs, pair{s, y})
				}
				pairs = pairs[max(0, len(pairs)-m.History):]
				x, g, loss = next, gNext, l
				break
			}
			if length /= 2; try == 30 {
				t.Fatalf("iteration %d finds no step", it)
			}
		}
	}
	return x
}
