package train_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

const bowlSize, bowlSigma = 50, 3.0

// bowl is ½|w − x|², whose gradient w − x has covariance σ²·1 for x ~ N(0, σ²·1), and a
// buffer that is no part of it. It begins at w = 1.
type bowl struct{ sgd.Model }

func (bowl) Layout() (l sgd.Layout) {
	l.Add("statistic", sgd.Buffer, 1, 7)
	l.Add("w", sgd.Weight, 5, bowlSize/5-2)
	l.Add("b", sgd.Bias, 1, 10)
	return l
}
func (bowl) SpanFLOPs() []float64    { return []float64{1, 1, 1} }
func (bowl) Metrics() []sgd.Metric   { return nil }
func (bowl) NewScratch() sgd.Scratch { return nil }
func (bowl) Init(w []float32, _ uint64) {
	for i := range w {
		w[i] = 1
	}
}
func (bowl) Eval([]float32, sgd.Scratch, sgd.Batch) (sgd.Score, error) { return sgd.Score{N: 1}, nil }
func (m bowl) Grad(_ context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	for span := 0; p.Need != nil && span < 3; span++ {
		if err := p.Need(span); err != nil {
			return 0, err
		}
	}
	for i := range 7 {
		p.Grad[i] = 100
	}
	for i := range bowlSize {
		sum := 0.0
		for k := range b.N {
			sum += float64(b.X[k*bowlSize+i])
		}
		p.Grad[7+i] = p.Params[7+i] - float32(sum/float64(b.N))
	}
	for span := 2; p.Ready != nil && span >= 0; span-- {
		if err := p.Ready(span); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

type gaussian struct{ n int }

func (g gaussian) Len() int { return g.n }
func (gaussian) Sample() sgd.Sample {
	return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: bowlSize}, Classes: 2}
}
func (gaussian) Batch(d sgd.Draw, b *sgd.Batch) error {
	b.X, b.Y, b.N, b.First = make([]float32, d.N*bowlSize), make([]int32, d.N), d.N, d.First
	for i := range b.X {
		b.X[i] = float32(bowlSigma * rng.New(9, "x").With(d.First+uint64(i/bowlSize)).Norm(uint64(i%bowlSize)))
	}
	return nil
}

func measured(j *train.Job) {
	j.NoiseScale = true
	j.Model, j.Data = bowl{}, sgd.Dataset{Train: gaussian{1 << 20}, Test: gaussian{1}}
	j.Updates = 400
	learning(0)(j)
}

var noisy = map[string][]option{
	"ring": {mode("reduce")}, "ring, parts": {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 50} }},
	"first": {mode("reduce"), prior(50)}, "gather, fp16": {mode("gather"), with("fp16")},
	"server": {}, "three shards": {func(j *train.Job) { j.Servers = 3 }}, "parts": {func(j *train.Job) { j.Servers, j.Overlap = 2, train.Buckets{Bytes: 1} }},
	"alone": {mode("reduce"), micros(8), func(j *train.Job) { j.Workers, j.Batch = 1, 32 }},
	"micro": {mode("reduce"), micros(4)}, "grows": {mode("reduce"), growing("growth(factor=2,at=[0.005])")},
}

// The noise scale of a bowl is known: tr(Σ) = d·σ², |𝒢|² = |w|² = d, and their ratio σ².
// Estimates have no bias: over 400 updates they are within a tenth of it, or a fifth
// where only one worker's gradients are looked at.
func TestNoiseScale(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, name := range patience.Few(3, slices.Sorted(maps.Keys(noisy))) {
		opts := noisy[name]
		t.Run(name, func(t *testing.T) {
			s := &journal{}
			j := job(t, append(slices.Clone(opts), measured)...)
			o := observeOn(t, simulated(0), j, nil, s)
			last := s.progress[len(s.progress)-1]
			for what, x := range map[string][2]float64{
				"trace of the covariance": {last.NoiseTrace, bowlSize * bowlSigma * bowlSigma},
				"square of the gradient":  {last.NoiseSquare, bowlSize}, "noise scale": {last.NoiseScale, bowlSigma * bowlSigma},
			} {
				if math.Abs(x[0]/x[1]-1) > 0.2 {
					t.Errorf("the %s is measured as %.4g, and is %v", what, x[0], x[1])
				}
			}
			again := &journal{}
			l := observeOn(t, &local.Net{}, job(t, append(slices.Clone(opts), measured)...), nil, again)
			if got := again.progress[len(again.progress)-1]; got.NoiseScale != last.NoiseScale || l.SHA256 != o.SHA256 {
				t.Errorf("sim measures %v and local %v", last.NoiseScale, got.NoiseScale)
			}
			plain := job(t, append(slices.Clone(opts), measured, func(j *train.Job) { j.NoiseScale = false })...)
			if p := observeOn(t, simulated(0), plain, nil, &journal{}); p.SHA256 != o.SHA256 || p.Final.Seconds != o.Final.Seconds || p.Final.BytesUp != o.Final.BytesUp {
				t.Error("measuring changes the run")
			}
		})
	}
}

// What was measured goes on over a resume, to the last bit.
func TestNoiseScaleResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range noisy {
		t.Run(name, func(t *testing.T) {
			opts := append(slices.Clone(opts), measured, func(j *train.Job) { j.Updates, j.CheckpointEvery = 40, 9 })
			s := &journal{}
			observeOn(t, simulated(0), job(t, opts...), nil, s)
			want := s.progress[len(s.progress)-1]
			if len(s.states) == 0 || want.NoiseScale == 0 {
				t.Fatalf("%d checkpoints, %+v", len(s.states), want)
			}
			for v, st := range s.states {
				again := &journal{}
				observeOn(t, simulated(time.Duration(st.Ints["nanoseconds"])), job(t, opts...), st, again)
				if got := again.progress[len(again.progress)-1]; got.NoiseTrace != want.NoiseTrace || got.NoiseSquare != want.NoiseSquare {
					t.Errorf("resumed at %d it measures %v and %v, not %v and %v", v, got.NoiseTrace, got.NoiseSquare, want.NoiseTrace, want.NoiseSquare)
				}
			}
		})
	}
}

// Where there is no mean of all workers' gradients, or only one batch size, or the codec
// changes what is compared, it is refused.
func TestNoiseScaleIsRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"no mean of all workers": {policy("asp"), measured},
		"makes no mean":          {mode("localsgd"), measured},
		"two batch sizes":        {mode("reduce"), measured, workers(1)},
		"topk":                   {mode("reduce"), with("topk(keep=0.5)"), measured},
	} {
		if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
