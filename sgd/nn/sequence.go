package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Embedding turns tokens into rows of a table, one row of Width values a token:
//
//	y_t = table[token_t]
//
// It reads tokens, so it is the first layer of a net. The gradient of the table is a sum
// over all tokens in the order of the batch.
type Embedding struct {
	Width int
	Init  Init // nil is He
}

func (l Embedding) bind(b *builder, x int) (int, error) {
	name := b.name("embedding")
	if l.Width < 1 {
		return 0, fmt.Errorf("nn: %s needs a width of at least 1, not %d", name, l.Width)
	}
	if !b.values[x].tokens {
		return 0, fmt.Errorf("nn: %s reads tokens, not inputs of %v; take a set of texts", name, b.shape(x))
	}
	e := &embedding{width: l.Width, length: b.shape(x).Len()}
	e.table = b.claim(name+".weight", sgd.Embedding, b.vocabulary, l.Width, l.Init.fans(l.Width, b.vocabulary), 0)
	b.table = e
	return b.emit(e, x, sgd.Shape{C: l.Width, H: e.length, W: 1}, e.table), nil
}

type embedding struct {
	width, length int
	table         int  // span
	tied          bool // the table has had the gradient of an Unembedding before
}

func (*embedding) traits() traits { return traits{holds: true} }

func (e *embedding) instance([]op) op {
	o := &embeddingOp{embedding: e}
	o.piece = o.columns
	return o
}

type embeddingOp struct {
	*embedding
	run   *run
	all   *microbatch
	piece func(i, slot int)
}

func (*embeddingOp) begin(*run, *microbatch, direction) {}

func (e *embeddingOp) forward(r *run, p *microbatch) {
	table, d := r.weights(e.table), e.width
	for i, t := range r.tokens[p.lo*e.length : p.hi*e.length] {
		copy(p.y[i*d:(i+1)*d], table[int(t)*d:(int(t)+1)*d])
	}
}

func (e *embeddingOp) backward(*run, *microbatch) {}

// embeddingColumns is how many columns of the table a goroutine adds up.
const embeddingColumns = 32

// end of the backward pass: all of dy is there.
func (e *embeddingOp) end(r *run, all *microbatch, d direction) {
	if d == ahead {
		return
	}
	e.run, e.all = r, all
	r.share((e.width+embeddingColumns-1)/embeddingColumns, r.n*e.length*e.width, e.piece)
}

// columns sets some columns of the gradient.
func (e *embeddingOp) columns(i, _ int) {
	r, d := e.run, e.width
	lo := i * embeddingColumns
	hi := min(lo+embeddingColumns, d)
	table := r.slope(e.table)
	if !e.tied {
		for at := 0; at < len(table); at += d {
			clear(table[at+lo : at+hi])
		}
	}
	for k, t := range r.tokens[:r.n*e.length] {
		f32.Add(table[int(t)*d+lo:int(t)*d+hi], e.all.dy[k*d+lo:k*d+hi])
	}
}

// Unembedding scores each position by its products with the rows of the table of the net's
// Embedding: a Linear without a bias whose weights are that table (Press and Wolf 2017,
// section 3). Inputs have the table's width.
type Unembedding struct{}

func (Unembedding) bind(b *builder, x int) (int, error) {
	name := b.name("unembedding")
	s, e := b.shape(x), b.table
	switch {
	case e == nil:
		return 0, fmt.Errorf("nn: %s needs an Embedding before it", name)
	case s.C != e.width:
		return 0, fmt.Errorf("nn: %s reads rows of %d values; the table has rows of %d", name, s.C, e.width)
	case e.tied:
		return 0, fmt.Errorf("nn: %s is the second one of a table", name)
	}
	e.tied = true
	b.flops[e.table] += float64(2 * float64(s.Len()) * float64(b.vocabulary))
	d := &dense{in: s.C, out: b.vocabulary, rows: s.H * s.W, weight: e.table, bias: -1, rounds: b.options.Precision == BFloat16}
	return b.emit(d, x, sgd.Shape{C: b.vocabulary, H: s.H, W: s.W}), nil
}

// Positions adds a learned row to each position of a sequence, the same in all samples
// (Radford et al. 2018, section 3.1): y_t = x_t + w_t.
type Positions struct {
	Init Init // nil is He
}

func (l Positions) bind(b *builder, x int) (int, error) {
	name := b.name("positions")
	x = b.images(x)
	s := b.shape(x)
	p := &positions{size: s.Len()}
	p.weight = b.claim(name+".weight", sgd.Embedding, s.H*s.W, s.C, l.Init.fans(s.C, s.H*s.W), float64(s.Len()))
	return b.emit(p, x, s, p.weight), nil
}

type positions struct {
	size   int // values of a sample
	weight int // span
}

func (*positions) traits() traits { return traits{passes: true, holds: true} }

func (p *positions) instance([]op) op { return positionsOp{p} }

type positionsOp struct{ *positions }

func (positionsOp) begin(*run, *microbatch, direction) {}

func (o positionsOp) forward(r *run, p *microbatch) {
	w := r.weights(o.weight)
	for s := range p.n() {
		add(p.y[s*o.size:(s+1)*o.size], p.x[s*o.size:(s+1)*o.size], w)
	}
}

func (positionsOp) backward(*run, *microbatch) {}

// end of the backward pass: the gradient is the sum over samples.
func (o positionsOp) end(r *run, all *microbatch, d direction) {
	if d == ahead {
		return
	}
	sum := r.slope(o.weight)
	copy(sum, all.dy[:o.size])
	for s := 1; s < r.n; s++ {
		f32.Add(sum, all.dy[s*o.size:(s+1)*o.size])
	}
}

// Rotary turns pairs of values by angles that grow with the position, so that products of
// two rows depend on their distance alone (Su et al. 2021, arXiv 2104.09864, equation 34).
// Rows are heads of Width values; the first Heads of them are turned, the others stay. With
// half = Width/2, pair i of a head is its values i and half + i:
//
//	y_i = x_i·cos θ − x_(half+i)·sin θ,  y_(half+i) = x_(half+i)·cos θ + x_i·sin θ
//	θ = t·Base^(−i/half)
//
// That is the order of Llama's files, where the paper pairs neighbours. Base 0 is 10,000.
type Rotary struct {
	Heads, Width int
	Base         float64
}

func (l Rotary) bind(b *builder, x int) (int, error) {
	name := b.name("rotary")
	x = b.images(x)
	s := b.shape(x)
	if l.Base == 0 {
		l.Base = 10000
	}
	if l.Heads < 1 || l.Width < 2 || l.Width%2 != 0 || l.Heads*l.Width > s.C || !(l.Base > 1) {
		return 0, fmt.Errorf("nn: %s needs heads of an even width within rows of %d values and a base above 1, not %d heads of %d and %g",
			name, s.C, l.Heads, l.Width, l.Base)
	}
	r := &rotary{Rotary: l, row: s.C, length: s.H * s.W}
	half := l.Width / 2
	r.cos, r.sin = make([]float32, r.length*half), make([]float32, r.length*half)
	for t := range r.length {
		for i := range half {
			turns := float64(t) * portable.Pow(l.Base, -float64(i)/float64(half)) / math.Pi
			r.sin[t*half+i], r.cos[t*half+i] = float32(portable.SinPi(turns)), float32(portable.CosPi(turns))
		}
	}
	return b.emit(r, x, s), nil
}

type rotary struct {
	Rotary
	row, length int
	cos, sin    []float32 // of position and pair
}

func (*rotary) traits() traits     { return traits{spoils: true, passes: true} }
func (r *rotary) instance([]op) op { return rotaryOp{rotary: r} }

type rotaryOp struct {
	noHooks
	*rotary
}

func (o rotaryOp) forward(_ *run, p *microbatch) {
	copy(p.y, p.x)
	o.turn(p.y, 1)
}

func (o rotaryOp) backward(_ *run, p *microbatch) { o.turn(p.dy, -1) }

// turn turns rows in place, by their angles times sign.
func (o rotaryOp) turn(rows []float32, sign float32) {
	half := o.Width / 2
	for t, at := 0, 0; at < len(rows); t, at = t+1, at+o.row {
		if t == o.length {
			t = 0
		}
		cos, sin := o.cos[t*half:(t+1)*half], o.sin[t*half:(t+1)*half]
		for h := range o.Heads {
			a := rows[at+h*o.Width:][:half]
			b := rows[at+h*o.Width+half:][:half]
			for i, c := range cos {
				s := sign * sin[i]
				u, v := a[i], b[i]
				a[i] = float32(u*c) - float32(v*s)
				b[i] = float32(v*c) + float32(u*s)
			}
		}
	}
}

// Attention lets each position take a mean over itself and those before it (causal
// multi-head attention, Vaswani et al. 2017, arXiv 1706.03762, section 3.2). Its input has
// rows of queries, keys and values, each in heads of d values, d the width of a row over
// Heads + 2·KVHeads:
//
//	S = Q·Kᵀ/√d,  P = softmax(S) over keys not behind the query,  Y = P·V
//	dV = Pᵀ·dY,  dP = dY·Vᵀ,  dS = P∘(dP − rowsum(P∘dP))/√d,  dQ = dS·K,  dK = dSᵀ·Q
//
// With KVHeads below Heads, Heads/KVHeads queries share a key and a value (Ainslie et al.
// 2023, arXiv 2305.13245). Scores are made for some queries at a time, ahead and again on
// the way back, so memory grows with the length of a sequence and not with its square.
//
// In training a share Dropout of the weights P is dropped, as Dropout does with values: the mask
// of query i of head h has the key (batch seed, "attention", layer, stream position of the sample,
// h·length + i), and value j is the weight of key j.
type Attention struct {
	Heads   int
	KVHeads int // a divisor of Heads; 0 is Heads
	Dropout float64
}

func (l Attention) bind(b *builder, x int) (int, error) {
	name := b.name("attention")
	x = b.images(x)
	s := b.shape(x)
	if l.KVHeads == 0 {
		l.KVHeads = l.Heads
	}
	all := l.Heads + 2*l.KVHeads
	if l.Heads < 1 || l.KVHeads < 1 || l.Heads%l.KVHeads != 0 || s.C%all != 0 {
		return 0, fmt.Errorf("nn: %s cannot cut rows of %d values into %d heads of queries and %d of keys and of values", name, s.C, l.Heads, l.KVHeads)
	}
	if !(l.Dropout >= 0 && l.Dropout < 1) {
		return 0, fmt.Errorf("nn: %s: dropout must be in [0, 1), not %g", name, l.Dropout)
	}
	a := &attention{Attention: l, width: s.C / all, row: s.C, length: s.H * s.W, drop: newDropout(l.Dropout, b.counts["attention"])}
	if len(b.flops) > 0 { // it has no span: the layer before it is billed
		b.flops[len(b.flops)-1] += float64(2 * float64(l.Heads) * float64(a.length) * float64(a.length) * float64(a.width))
	}
	return b.emit(a, x, sgd.Shape{C: l.Heads * a.width, H: s.H, W: s.W}), nil
}

type attention struct {
	Attention
	width       int // of a head
	row, length int // values of a position, positions of a sample
	drop        *dropout
}

func (*attention) traits() traits     { return traits{readsX: true} }
func (a *attention) instance([]op) op { return attentionOp{attention: a} }

type attentionOp struct {
	noHooks
	*attention
}

// attentionRows is how many queries have their scores at a time.
const attentionRows = 64

// key and value are the columns at which those of query head h begin.
func (a *attention) key(h int) int {
	return (a.Heads + h/(a.Heads/a.KVHeads)) * a.width
}

func (a *attention) value(h int) int { return a.key(h) + a.KVHeads*a.width }

func (a attentionOp) forward(r *run, p *microbatch) {
	out := a.Heads * a.width
	scores := r.space(p.slot, attentionRows*a.length)
	for s := range p.n() {
		x, y := p.x[s*a.length*a.row:(s+1)*a.length*a.row], p.y[s*a.length*out:(s+1)*a.length*out]
		for h := range a.Heads {
			for lo := 0; lo < a.length; lo += attentionRows {
				hi := min(lo+attentionRows, a.length)
				a.weights(scores, x, h, lo, hi)
				if r.train {
					a.mask(r, p.lo+s, h, lo, hi, scores, scores)
				}
				f32.GemmSerial(false, false, hi-lo, a.width, hi, 1, scores, hi, x[a.value(h):], a.row, 0, y[lo*out+h*a.width:], out)
			}
		}
	}
}

// weights sets dst to P for queries lo … hi−1 of head h, hi values a row.
func (a attentionOp) weights(dst, x []float32, h, lo, hi int) {
	f32.GemmSerial(false, true, hi-lo, hi, a.width, float32(1/math.Sqrt(float64(a.width))),
		x[lo*a.row+h*a.width:], a.row, x[a.key(h):], a.row, 0, dst, hi)
	for i := lo; i < hi; i++ {
		row := dst[(i-lo)*hi : (i-lo+1)*hi]
		softmax(row[:i+1])
		clear(row[i+1:])
	}
}

// mask drops weights of queries lo … hi−1 of a head, or their gradients, hi a row, of a sample on
// the way from one place to another, which may be the same. Without dropout it does nothing.
func (a attentionOp) mask(r *run, sample, h, lo, hi int, to, from []float32) {
	if a.drop == nil {
		return
	}
	key := rng.New(r.seed, "attention").With(a.drop.layer).With(r.first + uint64(sample))
	for i := lo; i < hi; i++ {
		row := (i - lo) * hi
		a.drop.drop(key.With(uint64(h*a.length+i)), to[row:row+hi], from[row:row+hi])
	}
}

// softmax is v = exp(v)/Σexp(v), in place.
func softmax(v []float32) { f32.Scale(v, float32(1/f32.ExpSum(v, v, f32.Max(v)))) }

func (a attentionOp) backward(r *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	out, scale := a.Heads*a.width, float32(1/math.Sqrt(float64(a.width)))
	space := r.space(p.slot, 3*attentionRows*a.length)
	weights, slopes, dropped := space[:len(space)/3], space[len(space)/3:2*len(space)/3], space[2*len(space)/3:]
	if a.drop == nil {
		dropped = weights
	}
	clear(p.dx)
	for s := range p.n() {
		x, dx := p.x[s*a.length*a.row:(s+1)*a.length*a.row], p.dx[s*a.length*a.row:(s+1)*a.length*a.row]
		dy := p.dy[s*a.length*out : (s+1)*a.length*out]
		for h := range a.Heads {
			query, key, value := h*a.width, a.key(h), a.value(h)
			for lo := 0; lo < a.length; lo += attentionRows {
				hi := min(lo+attentionRows, a.length)
				rows, dOut := hi-lo, dy[lo*out+h*a.width:]
				a.weights(weights, x, h, lo, hi)
				a.mask(r, p.lo+s, h, lo, hi, dropped, weights)
				f32.GemmSerial(true, false, hi, a.width, rows, 1, dropped, hi, dOut, out, 1, dx[value:], a.row)
				f32.GemmSerial(false, true, rows, hi, a.width, 1, dOut, out, x[value:], a.row, 0, slopes, hi)
				a.mask(r, p.lo+s, h, lo, hi, slopes, slopes)
				for i := range rows {
					dp, p := slopes[i*hi:(i+1)*hi], weights[i*hi:(i+1)*hi]
					f32.SoftmaxGrad(dp, dp, p, float32(f32.Dot(p, dp)))
				}
				f32.GemmSerial(false, false, rows, a.width, hi, scale, slopes, hi, x[key:], a.row, 0, dx[lo*a.row+query:], a.row)
				f32.GemmSerial(true, false, hi, a.width, rows, scale, slopes, hi, x[lo*a.row+query:], a.row, 1, dx[key:], a.row)
			}
		}
	}
}
