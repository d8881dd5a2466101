package train_test

import (
	"context"
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/mean"
)

// flock is workers with parameters and moments of their own.
type flock struct {
	t     *testing.T
	j     *train.Job
	x     []vec
	rules []*rule
}

func newFlock(t *testing.T, j *train.Job) *flock {
	c := &flock{t: t, j: j}
	for range j.Workers {
		x := begin(j)
		c.x, c.rules = append(c.x, x), append(c.rules, newRule(j.Optimizer, len(x)))
	}
	return c
}

// step is what worker w subtracts in a step whose gradient is taken at a point.
func (c *flock) step(w, step int, at vec) vec {
	g := gradientAt(c.t, c.j, at, w, step)
	return c.rules[w].update(c.t, g, ownRate(c.t, c.j, step), step)
}

// byRounds is training in rounds. With by_rate it is SlowMo (Wang et al. 2019):
// u ← β·u + Δ/γ, a ← a − α·γ·u, with γ the rate of the round's last step.
func byRounds(t *testing.T, j *train.Job, _ []event) vec {
	m := j.Mode.(mean.LocalSGD)
	c, a := newFlock(t, j), begin(j)
	slow := newRule(sgd.Plain{}, len(a))
	if j.Outer != nil {
		slow.of = j.Outer
	}
	round, since := 0, 0
	for s := 0; s < j.Updates; {
		for w := range c.x {
			n := s
			if m.Inner == "reset" && s >= m.Start { // adam counts its steps anew
				n -= since
			}
			g := gradientAt(t, j, c.x[w], w, s)
			add(c.x[w], -1, c.rules[w].update(t, g, ownRate(t, j, s), n))
		}
		if s++; s > m.Start && (s-m.Start)%m.H != 0 && s < j.Updates {
			continue
		}
		delta := dup(a)
		add(delta, -1, meanOf(c.x))
		switch gamma := ownRate(t, j, s-1); {
		case s <= m.Start:
			add(a, -1, delta)
		case m.ByRate:
			for i := range delta {
				delta[i] /= gamma
			}
			add(a, -1, slow.update(t, delta, m.LR*gamma, round))
		default:
			add(a, -1, slow.update(t, delta, m.LR, round))
		}
		round, since = round+1, s
		m1, m2 := make([]vec, j.Workers), make([]vec, j.Workers)
		for w := range c.x {
			c.x[w], m1[w], m2[w] = dup(a), c.rules[w].m1, c.rules[w].m2
		}
		for _, r := range c.rules {
			switch {
			case m.Inner == "average":
				r.m1, r.m2 = meanOf(m1), meanOf(m2)
			case m.Inner == "reset" && s >= m.Start:
				r.m1, r.m2 = make(vec, len(a)), make(vec, len(a))
			}
		}
	}
	return a
}

// byGossip is D-PSGD (Lian et al. 2017) and SGP (Assran et al. 2019): what all say
// in a step is mixed by the graph's weights, that of SGP some steps later.
func byGossip(t *testing.T, j *train.Job, _ []event) vec {
	c := newFlock(t, j)
	sgp, push := j.Mode.(gossip.SGP)
	d, _ := j.Mode.(gossip.DPSGD)
	weight := make(vec, j.Workers)
	for w := range weight {
		weight[w] = 1
	}
	var said [][]vec // by step and worker
	var saidWeight []vec
	for s := range j.Updates {
		steps := make([]vec, j.Workers)
		for w, x := range c.x {
			at := dup(x)
			for i := range at {
				at[i] /= weight[w]
			}
			steps[w] = c.step(w, s, at)
		}
		words := make([]vec, j.Workers)
		for w, x := range c.x {
			if push || d.Adapt {
				add(x, -1, steps[w])
			}
			words[w] = dup(x)
		}
		said, saidWeight = append(said, words), append(saidWeight, dup(weight))
		for w := range c.x {
			mix := j.Graph.Mix(w, j.Workers, s)
			next := make(vec, len(c.x[w]))
			add(next, mix.Self, c.x[w])
			weight[w] *= mix.Self
			if then := s - sgp.Late; then >= 0 {
				for _, e := range j.Graph.Mix(w, j.Workers, then).In {
					add(next, e.Weight, said[then][e.Rank])
					if push {
						weight[w] += e.Weight * saidWeight[then][e.Rank]
					}
				}
			}
			if !push {
				weight[w] = 1
				if !d.Adapt {
					add(next, -1, steps[w])
				}
			}
			c.x[w] = next
		}
	}
	return c.ratio(weight)
}

// ratio is the mean of the workers' models x/w.
func (c *flock) ratio(weight vec) vec {
	out := make(vec, len(c.x[0]))
	for w, x := range c.x {
		add(out, 1/weight[w]/float64(len(c.x)), x)
	}
	return out
}

func (c *flock) ones() vec {
	out := make(vec, len(c.x))
	for i := range out {
		out[i] = 1
	}
	return out
}

// byKnown is CHOCO-SGD (Koloskova et al. 2019, algorithm 2): x̂ is what all know of
// a worker, q what it sends, and averaging is of x̂ alone.
func byKnown(t *testing.T, j *train.Job, _ []event) vec {
	c, gamma := newFlock(t, j), j.Mode.(gossip.Choco).Gamma
	keep := j.Codec.(compress.TopK).Keep
	known := newFlock(t, j).x
	for s := range j.Updates {
		for w, x := range c.x {
			add(x, -1, c.step(w, s, x))
			diff := dup(x)
			add(diff, -1, known[w])
			for _, span := range j.Model.Layout().Spans {
				largest(diff[span.Off:span.End()], keep)
			}
			add(known[w], 1, diff)
		}
		for w, x := range c.x {
			for _, e := range j.Graph.Mix(w, j.Workers, s).In {
				add(x, gamma*e.Weight, known[e.Rank])
				add(x, -gamma*e.Weight, known[w])
			}
		}
	}
	return c.ratio(c.ones())
}

// largest keeps the share of values that are largest in magnitude, and clears the
// others.
func largest(x vec, keep float64) {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return math.Abs(x[order[a]]) > math.Abs(x[order[b]]) })
	for _, i := range order[max(1, int(math.Ceil(keep*float64(len(x))))):] {
		x[i] = 0
	}
}

// byPairs is AD-PSGD (Lian et al. 2018): two average what they hold, and the one
// that asked steps by its gradient at what it held when it asked.
func byPairs(t *testing.T, j *train.Job, events []event) vec {
	c := newFlock(t, j)
	said, answers, shown := make([]vec, j.Workers), make([]vec, j.Workers), make([]vec, j.Workers)
	met, asked := map[[2]int]int{}, make([]int, j.Workers) // by who asks, and whom
	for _, e := range events {
		from := int(e.From)
		switch {
		case e.deed == sends && e.Tag == train.TagPeer && e.rank != int(e.To):
			said[e.rank] = dup(c.x[e.rank])
			sameWords(t, e, said[e.rank])
			met[[2]int{e.rank, int(e.To)}]++
			asked[e.rank]++
		case e.deed == receives && e.Tag == train.TagPeer && e.rank != from:
			answers[from] = dup(c.x[e.rank])
			add(c.x[e.rank], -0.5, answers[from])
			add(c.x[e.rank], 0.5, said[from])
		case e.deed == sends && e.Tag == train.TagReply:
			sameWords(t, e, answers[e.To])
		case e.deed == receives && e.Tag == train.TagReply:
			w := e.rank
			add(c.x[w], 0.5, answers[w])
			add(c.x[w], -0.5, said[w])
			add(c.x[w], -1, c.step(w, int(e.Step), said[w]))
		case e.deed == sends && e.Tag == train.TagSnapshot:
			shown[e.rank] = dup(c.x[e.rank])
		}
	}
	for w, n := range asked { // a neighbour at random
		out := j.Graph.Mix(w, j.Workers, 0).Out
		for _, e := range out {
			if k := met[[2]int{w, e.Rank}]; n < 5 || k < n/(3*len(out)) {
				t.Errorf("worker %d averages with worker %d %d times of %d, having %d neighbours", w, e.Rank, k, n, len(out))
			}
		}
	}
	return meanOf(shown) // some go on after they were asked for the last time
}

// sameWords compares what a worker says with what it should.
func sameWords(t *testing.T, e event, want vec) {
	t.Helper()
	if d := apartFrom(want, narrow(e.floats())); !(d < 2e-5) && !t.Failed() {
		t.Errorf("worker %d, step %d: what it says is %.3g from what it should", e.rank, e.Step, d)
	}
}

// byPushes is AGP (Assran and Rabbat 2020) as the mode's lines have it: z = x/w,
// z ← z − step, x ← w·z, and a share of (x, w) goes to each who is ahead, unless
// less than least would be left.
func byPushes(t *testing.T, j *train.Job, events []event) vec {
	type message struct {
		x      vec
		weight float64
		unsent int
	}
	c := newFlock(t, j)
	weight := c.ones()
	z, steps, owed := make([]vec, j.Workers), make([]int, j.Workers), make([]int, j.Workers)
	pending, shown := make([]bool, j.Workers), make([]vec, j.Workers)
	words := map[[2]int]*message{} // by worker and step
	took, light := 0, 0            // messages; steps of workers of another weight than 1
	update := func(w int) {
		s := steps[w]
		steps[w], pending[w] = s+1, false
		if math.Abs(weight[w]-1) > 0.1 {
			light++
		}
		add(c.x[w], -weight[w], c.step(w, s, z[w]))
		mix := j.Graph.Mix(w, j.Workers, s)
		if mix.Self*weight[w] < j.Mode.(gossip.AGP).Least {
			return
		}
		words[[2]int{w, s}] = &message{dup(c.x[w]), weight[w], len(mix.Out)}
		owed[w] += len(mix.Out)
		weight[w] *= mix.Self
		for i := range c.x[w] {
			c.x[w][i] *= mix.Self
		}
	}
	model := func(w int) vec {
		out := dup(c.x[w])
		for i := range out {
			out[i] /= weight[w]
		}
		return out
	}
	for _, e := range events {
		w, from := e.rank, int(e.From)
		switch {
		case w >= j.Workers:
		case e.deed == computes:
			z[w] = model(w)
		case e.deed == sends && e.Tag == train.TagSnapshot:
			shown[w] = model(w)
		case e.deed == computed:
			if pending[w] = true; owed[w] == 0 {
				update(w)
			}
		case e.deed == receives && e.Tag == train.TagReply:
			if owed[w]--; pending[w] && owed[w] == 0 {
				update(w)
			}
		case e.deed == sends && e.Tag == train.TagPeer && w != int(e.To):
			m := words[[2]int{w, int(e.Step)}]
			if m == nil || m.unsent == 0 {
				t.Fatalf("worker %d pushes in step %d, where it should keep what it has", w, e.Step)
			}
			m.unsent--
			sameWords(t, e, m.x)
			if math.Abs(e.Value-m.weight) > 1e-12 {
				t.Errorf("worker %d, step %d: it pushes weight %g, want %g", w, e.Step, e.Value, m.weight)
			}
		case e.deed == receives && e.Tag == train.TagPeer && w != from:
			m := words[[2]int{from, int(e.Step)}]
			for _, edge := range j.Graph.Mix(from, j.Workers, int(e.Step)).Out {
				if edge.Rank == w {
					add(c.x[w], edge.Weight, m.x)
					weight[w] += edge.Weight * m.weight
				}
			}
			took++
		}
	}
	for k, m := range words {
		if m.unsent > 0 {
			t.Errorf("worker %d did not push in its step %d", k[0], k[1])
		}
	}
	if took < j.Updates/4 || light < j.Updates/4 {
		t.Errorf("%d messages and %d steps at another weight than 1, in %d steps: too few to tell", took, light, j.Updates)
	}
	return meanOf(shown)
}

// slope is a model whose gradient is the mean input, whatever the parameters are.
type slope struct{ n int }

func (m slope) Layout() sgd.Layout {
	var l sgd.Layout
	l.Add("weight", sgd.Weight, 1, m.n)
	return l
}
func (slope) Init(params []float32, _ uint64) { clear(params) }
func (slope) NewScratch() sgd.Scratch         { return nil }
func (slope) SpanFLOPs() []float64            { return []float64{1e5} }
func (slope) Metrics() []sgd.Metric           { return nil }
func (m slope) Grad(_ context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	clear(p.Grad)
	for i, x := range b.X {
		p.Grad[i%m.n] += x / float32(b.N)
	}
	return 1, nil
}
func (slope) Eval([]float32, sgd.Scratch, sgd.Batch) (sgd.Score, error) { return sgd.Score{N: 1}, nil }

// Hogwild (Niu et al. 2011) alone is SGD; with others no update is lost, whoever
// writes at the same time. Where gradients do not depend on what was read, that
// says where the run ends.
func TestHogwildIsAsPublished(t *testing.T) {
	t.Parallel()
	alone := job(t, mode("hogwild"), workers(1), optimizer("momentum(beta=0.7)"), rate("cosine(lr=0.05)"))
	o, _ := runOn(t, &local.Net{}, alone, nil)
	c := newFlock(t, alone)
	for s := range alone.Updates {
		add(c.x[0], -1, c.step(0, s, c.x[0]))
	}
	if d := apartFrom(c.x[0], o.Params); !(d < 2e-5) {
		t.Errorf("one worker: relative distance to SGD is %.3g", d)
	}

	// On a busy machine a short run may be over before its workers are asked to rest.
	var j *train.Job
	var s *sink
	for updates := 4000; s == nil || len(s.states) == 0; updates *= 4 {
		if updates > 2e6 {
			t.Fatal("no checkpoint, at which all are at rest")
		}
		j = job(t, mode("hogwild"), optimizer("momentum(beta=0.7)"), rate("constant(lr=0.05)"), func(j *train.Job) {
			j.Model, j.Updates, j.CheckpointEvery = slope{16}, updates, 100
		})
		_, s = runOn(t, &local.Net{}, j, nil)
	}
	for version, st := range s.states {
		want, c := begin(j), newFlock(t, j)
		for w := range j.Workers {
			for step := range int(st.Ints[fmt.Sprintf("step/%d", w)]) {
				add(want, -1, c.step(w, step, want))
			}
		}
		if d := apartFrom(want, st.Vectors["param"]); !(d < 1e-4) {
			t.Errorf("four workers, %d updates: relative distance to the sum of all is %.3g", version, d)
		}
	}
}
