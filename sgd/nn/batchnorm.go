package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// BatchNorm normalises each channel over the M values it has in the batch
// (Ioffe and Szegedy 2015), features 1×1×W each being a channel:
//
//	μ = Σx/M,  σ² = Σx²/M − μ²,  x̂ = (x − μ)/√(σ² + ε),  y = γ·x̂ + β
//	dβ = Σdy,  dγ = Σdy·x̂,  dx = γ/√(σ² + ε) · (dy − dβ/M − x̂·dγ/M)
//
// Inference uses running statistics, which move by Momentum per batch, the
// variance by its unbiased estimate. They are spans of role Buffer: Grad
// reports old − new = Momentum·(old − batch) for them. A synchronous run averages
// them over its workers as it averages gradients. With Momentum 1 there is no
// moving average: the statistics are those of the last batches, averaged over the
// workers (Akiba et al. 2017, section 3).
//
// With Ghost (Hoffer et al. 2017, algorithm 1) a batch of N is cut into
// max(1, ⌊N/Ghost⌋) groups of consecutive samples, equal but for one sample, and
// each group is normalised by its own μ and σ². dγ and dβ are sums over all groups.
// Running statistics move by the mean over the samples' groups, where the paper
// moves them group by group: so one worker with a batch of k·Ghost computes what
// k workers with batches of Ghost do together. Inference is not touched.
//
// Where a pass has a Sum (see sgd.Pass) sums of x, x², dy and dy·x are those of all
// workers' batches: together they compute what one worker on the union of their batches
// does, running statistics included. Ghost batches stay each worker's own.
//
// It is two operations, since sums over the batch must be known between them:
// moments looks at x and, on the way back, makes dx; normalise makes y, adds a
// shortcut and rectifies in the same pass, and on the way back sums.
type BatchNorm struct {
	// ZeroScale starts γ at 0 instead of 1, so that a residual body starts as
	// nothing (Goyal et al. 2017).
	ZeroScale bool
	Momentum  float64 // weight of the batch in the running statistics; 0 is 0.1
	Epsilon   float64 // ε; 0 is 1e-5
	Ghost     int     // samples that share statistics; 0 is all of the batch
	NoScale   bool    // γ is 1 for good
}

const (
	normEpsilon  = 1e-5
	normMomentum = 0.1
)

// withDefaults replaces zeros by what they stand for.
func (l BatchNorm) withDefaults() BatchNorm {
	if l.Momentum == 0 {
		l.Momentum = normMomentum
	}
	if l.Epsilon == 0 {
		l.Epsilon = normEpsilon
	}
	return l
}

func (l BatchNorm) bind(b *builder, x int) (int, error) {
	name := b.name("bn")
	l = l.withDefaults()
	if !(l.Momentum > 0 && l.Momentum <= 1 && l.Epsilon > 0) || l.Ghost < 0 {
		return 0, fmt.Errorf("nn: %s needs a momentum above 0 and at most 1, ε > 0 and ghost ≥ 0, not %g, %g, %d", name, l.Momentum, l.Epsilon, l.Ghost)
	}
	x = b.images(x)
	in := b.shape(x)
	gamma := 1.0
	if l.ZeroScale {
		gamma = 0
	}
	m := moments{BatchNorm: l, c: in.C, rows: in.H * in.W, scale: -1}
	if in.C == 1 && in.H == 1 {
		m.c, m.rows = in.W, 1
	}
	var spans []int
	if !l.NoScale {
		m.scale = b.claim(name+".scale", sgd.Norm, 1, m.c, constant(gamma), 4*float64(in.Len()))
		spans = append(spans, m.scale)
	}
	m.shift = b.claim(name+".shift", sgd.Norm, 1, m.c, constant(0), 0)
	m.mean = b.claim(name+".mean", sgd.Buffer, 1, m.c, constant(0), 0)
	m.variance = b.claim(name+".var", sgd.Buffer, 1, m.c, constant(1), 0)
	at := len(b.nodes)
	x = b.emit(&m, x, in, append(spans, m.shift, m.mean, m.variance)...)
	return b.emit(&normalise{half: at}, x, in), nil
}

type moments struct {
	BatchNorm
	c, rows                      int // channels, and values of each in a sample
	scale, shift, mean, variance int // spans; scale is −1 without
}

func (*moments) traits() traits { return traits{alias: true, gathers: true, readsX: true} }

func (m *moments) instance([]op) op { return &momentsOp{moments: m, groups: 1} }

// momentsOp also keeps what both operations know of a batch, per group and channel.
type momentsOp struct {
	*moments
	groups  int
	mu, inv []float64 // μ and 1/√(σ² + ε)
	a, b    []float32 // y = a·x + b
	k, p, q []float32 // dx = k·dy + p·x + q
	lanes   [maxLanes]pairs
	joint   []float64 // sums over the workers: two a channel, and ahead the number of values
	all     float64   // values of a channel in all workers' batches
}

// Meetings implements sgd.Joint: of a batch norm sums of 2c + 1 values for c channels ahead,
// and of 2c back, but for those with ghost batches.
func (n *Net) Meetings(int) (all []sgd.Meeting) {
	for _, x := range n.plan.nodes {
		if m, ok := x.bound.(*moments); ok && m.Ghost == 0 {
			all = append(all, sgd.Meeting{Key: m.key(ahead), Sums: make([]float64, 2*m.c+1)})
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		all = append(all, sgd.Meeting{Key: all[i].Key + 1, Sums: all[i].Sums[1:]})
	}
	return all
}

// key is that of the batch norm's meeting in a direction.
func (m *moments) key(d direction) int {
	if d == back {
		return 2*m.mean + 1
	}
	return 2 * m.mean
}

// join adds the two sums of every channel up over the workers, if their batches are
// normalised together: those of ghost batches are not. Ahead it counts their values.
func (o *momentsOp) join(r *run, d direction) (joined bool) {
	if r.meet == nil || !r.train || o.Ghost > 0 || r.failed != nil {
		return false
	}
	v := grow(&o.joint, 2*o.c+1)
	for i := range o.c {
		v[2*i], v[2*i+1] = o.total(r, 0, i)
	}
	if v[2*o.c] = float64(r.n * o.rows); d == back {
		v = v[:2*o.c]
	}
	if r.failed = r.meet(sgd.Meeting{Key: o.key(d), Sums: v}); r.failed == nil && d == ahead {
		o.all = v[2*o.c]
	}
	return r.failed == nil
}

// pairs is two sums a group and channel: of x and x² ahead, of dy and dy·x back.
// A lane has them for the groups it meets, from group from on.
type pairs struct {
	from          int
	first, second []float64
}

// first is the first sample of a group of r's batch.
func (o *momentsOp) first(r *run, group int) int { return group * r.n / o.groups }

// group is the group of a sample.
func (o *momentsOp) group(r *run, sample int) int {
	return ((sample+1)*o.groups - 1) / r.n
}

// each calls fn for the parts of a microbatch that lie in one group: samples lo to hi − 1
// of the microbatch.
func (o *momentsOp) each(r *run, p *microbatch, fn func(group, lo, hi int)) {
	for lo := p.lo; lo < p.hi; {
		g := o.group(r, lo)
		hi := min(p.hi, o.first(r, g+1))
		fn(g, lo-p.lo, hi-p.lo)
		lo = hi
	}
}

// row is what v has of a group, a value a channel.
func row[E any](o *momentsOp, v []E, group int) []E { return v[group*o.c : (group+1)*o.c] }

// part is what v, which may be nil, has of samples lo to hi − 1.
func (o *momentsOp) part(v []float32, lo, hi int) []float32 {
	if v == nil {
		return nil
	}
	size := o.c * o.rows
	return v[lo*size : hi*size]
}

// open makes the sums of a microbatch's lane ready: they begin with its first microbatch.
func (o *momentsOp) open(r *run, p *microbatch) *pairs {
	l := &o.lanes[p.lane]
	if p.fresh {
		l.from = o.group(r, p.lane*r.n/r.lanes)
		met := o.group(r, (p.lane+1)*r.n/r.lanes-1) - l.from + 1
		clear(grow(&l.first, met*o.c))
		clear(grow(&l.second, met*o.c))
	}
	return l
}

// total is the sums of a group and channel over all lanes.
func (o *momentsOp) total(r *run, group, channel int) (first, second float64) {
	for i := range o.lanes[:r.lanes] {
		l := &o.lanes[i]
		if at := (group-l.from)*o.c + channel; group >= l.from && at < len(l.first) {
			first += l.first[at]
			second += l.second[at]
		}
	}
	return first, second
}

func (o *momentsOp) forward(r *run, p *microbatch) {
	if !r.train {
		return
	}
	l := o.open(r, p)
	o.each(r, p, func(g, lo, hi int) {
		f32.Moments(row(o, l.first, g-l.from), row(o, l.second, g-l.from), o.part(p.x, lo, hi))
	})
}

func (o *momentsOp) backward(r *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	o.each(r, p, func(g, lo, hi int) {
		f32.NormGrad(o.part(p.dx, lo, hi), o.part(p.dy, lo, hi), o.part(p.x, lo, hi), row(o, o.k, g), row(o, o.p, g), row(o, o.q, g))
	})
}

func (o *momentsOp) begin(r *run, _ *microbatch, d direction) {
	if d == back {
		return
	}
	o.groups = 1
	if r.train && o.Ghost > 0 {
		o.groups = max(1, r.n/o.Ghost)
	}
	for _, v := range []*[]float32{&o.a, &o.b, &o.k, &o.p, &o.q} {
		grow(v, o.groups*o.c)
	}
	grow(&o.mu, o.groups*o.c)
	grow(&o.inv, o.groups*o.c)
}

// gamma is the scale of a channel.
func (o *momentsOp) gamma(r *run, channel int) float64 {
	if o.scale < 0 {
		return 1
	}
	return float64(r.param(o.scale)[channel])
}

// end of the forward pass knows the batch.
func (o *momentsOp) end(r *run, _ *microbatch, d direction) {
	if d == back {
		return
	}
	joined := o.join(r, d)
	shift, mean, variance := r.param(o.shift), r.param(o.mean), r.param(o.variance)
	for i := range o.c {
		var meanOf, varianceOf float64 // of groups, each by its samples
		for g := range o.groups {
			mu, sigma2 := float64(mean[i]), float64(variance[i])
			if r.train {
				samples := o.first(r, g+1) - o.first(r, g)
				m := float64(samples * o.rows)
				s1, s2 := o.total(r, g, i)
				if joined {
					s1, s2, m = o.joint[2*i], o.joint[2*i+1], o.all
				}
				mu = s1 / m
				sigma2 = max(s2/m-float64(mu*mu), 0)
				unbiased := sigma2
				if m > 1 {
					unbiased *= m / (m - 1)
				}
				share := float64(samples) / float64(r.n)
				meanOf += float64(share * mu)
				varianceOf += float64(share * unbiased)
			}
			inv := 1 / math.Sqrt(sigma2+o.Epsilon)
			at := g*o.c + i
			o.mu[at], o.inv[at] = mu, inv
			a := o.gamma(r, i) * inv
			o.a[at], o.b[at] = float32(a), float32(float64(shift[i])-float64(a*mu))
		}
		if r.train {
			r.slope(o.mean)[i] = float32(o.Momentum * (float64(mean[i]) - meanOf))
			r.slope(o.variance)[i] = float32(o.Momentum * (float64(variance[i]) - varianceOf))
		}
	}
}

// differentiate takes the sums of dy and dy·x and sets dγ, dβ and what makes
// dx, collecting terms.
func (o *momentsOp) differentiate(r *run) {
	joined := o.join(r, back)
	for i := range o.c {
		var dshift, dscale float64
		for g := range o.groups {
			at := g*o.c + i
			m := float64((o.first(r, g+1) - o.first(r, g)) * o.rows)
			sdy, sdyx := o.total(r, g, i)
			db, dg := sdy, float64(o.inv[at]*(sdyx-float64(o.mu[at]*sdy)))
			dshift += db
			dscale += dg
			if joined { // what comes back to x is from all batches, what makes dγ and dβ from its own
				sdy, sdyx, m = o.joint[2*i], o.joint[2*i+1], o.all
				db, dg = sdy, o.inv[at]*(sdyx-float64(o.mu[at]*sdy))
			}
			k := o.gamma(r, i) * o.inv[at]
			p := -k * dg / m * o.inv[at]
			o.k[at], o.p[at], o.q[at] = float32(k), float32(p), float32(-k*db/m-float64(p*o.mu[at]))
		}
		r.slope(o.shift)[i] = float32(dshift)
		if o.scale >= 0 {
			r.slope(o.scale)[i] = float32(dscale)
		}
	}
}

// normalise is the second half of a batch norm.
type normalise struct {
	half int // node of the first
	relu bool
}

func (f *normalise) rectify() { f.relu = true }

func (f *normalise) traits() traits {
	return traits{readsX: true, readsY: f.relu, spoils: f.relu, passes: true}
}

func (f *normalise) instance(ops []op) op {
	return &normaliseOp{normalise: *f, momentsOp: ops[f.half].(*momentsOp)}
}

type normaliseOp struct {
	normalise
	*momentsOp
}

func (o *normaliseOp) begin(*run, *microbatch, direction) {}

func (o *normaliseOp) forward(r *run, p *microbatch) {
	o.each(r, p, func(g, lo, hi int) {
		f32.ScaleShift(o.part(p.y, lo, hi), o.part(p.x, lo, hi), row(o.momentsOp, o.a, g), row(o.momentsOp, o.b, g), o.part(p.add, lo, hi), o.relu)
	})
}

func (o *normaliseOp) backward(r *run, p *microbatch) {
	l := o.open(r, p)
	o.each(r, p, func(g, lo, hi int) {
		f32.NormGradSums(row(o.momentsOp, l.first, g-l.from), row(o.momentsOp, l.second, g-l.from), o.part(p.dy, lo, hi), o.part(p.x, lo, hi), o.part(p.y, lo, hi))
	})
}

func (o *normaliseOp) end(r *run, _ *microbatch, d direction) {
	if d == back {
		o.differentiate(r)
	}
}
