package train_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

func growing(text string) option {
	return func(j *train.Job) { j.Batches = lrschedule.Batches.MustParse(text) }
}

// seen is a source that notes the draws it was asked for.
type seen struct {
	sgd.Source
	mu    *sync.Mutex
	draws map[sgd.Draw]bool
}

func (s seen) Batch(d sgd.Draw, b *sgd.Batch) error {
	s.mu.Lock()
	s.draws[d] = true
	s.mu.Unlock()
	return s.Source.Batch(d, b)
}

var grown = map[string][]option{
	"ring": {mode("reduce")}, "ring, overlap": {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
	"two shards": {func(j *train.Job) { j.Servers = 2 }}, "gossip": {mode("dpsgd"), graph("ring")},
	"rounds": {mode("localsgd(h=3)")}, "elastic": {mode("easgd(tau=2)")}, "micro": {mode("reduce"), micros(2)},
	"first": {mode("reduce"), prior(500)},
}

// With a batch that grows every sample of the stream is drawn once and in no gap,
// micro-batches are no larger than at first, the last evaluation tells all samples, and
// sim and local end with the same bits.
func TestGrowingBatch(t *testing.T) {
	t.Parallel()
	for name, opts := range grown {
		t.Run(name, func(t *testing.T) {
			draws, mu := map[sgd.Draw]bool{}, &sync.Mutex{}
			opts := append(slices.Clone(opts), growing("growth(factor=3,at=[0.5,1])"), func(j *train.Job) { j.Updates = 24 })
			note := func(j *train.Job) { j.Data.Train = seen{j.Data.Train, mu, draws} }
			j := job(t, append(opts, note)...)
			s := &journal{}
			o := observeOn(t, simulated(0), j, nil, s)
			var all []sgd.Draw
			mu.Lock() // what is drawn ahead may still be under way
			defer mu.Unlock()
			for d := range draws {
				all = append(all, d)
				if d.N > 8 {
					t.Errorf("a pass of %d samples", d.N)
				}
			}
			slices.SortFunc(all, func(a, b sgd.Draw) int { return int(a.First) - int(b.First) })
			next, total := uint64(0), j.Drawn(24)
			for _, d := range all {
				if next >= total { // drawn ahead
					break
				}
				if d.First != next {
					t.Fatalf("samples %d to %d are drawn by nobody, or twice", next, d.First)
				}
				next += uint64(d.N)
			}
			if o.Final.Samples != total || next < total || total < 24*uint64(j.Samples())*3/2 {
				t.Errorf("24 updates of %d samples at first: %d are told, %d planned, %d drawn", j.Samples(), o.Final.Samples, total, next)
			}
			last := s.progress[len(s.progress)-1]
			if last.Batch != 9*j.Samples() || s.progress[0].Batch != j.Samples() {
				t.Errorf("the last update is told to have %d samples, the first %d", last.Batch, s.progress[0].Batch)
			}
			l, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
			if l.SHA256 != o.SHA256 {
				t.Error("sim and local differ in their bits")
			}
		})
	}
}

// A batch that is twice as large from the first update on is that of a job with twice
// the batch.
func TestStagesAreBatches(t *testing.T) {
	t.Parallel()
	few := func(j *train.Job) { j.Updates = 20 }
	a, _ := runOn(t, simulated(0), job(t, mode("reduce"), few, growing("stages(times=[2],at=[])")), nil)
	b, _ := runOn(t, simulated(0), job(t, mode("reduce"), few, func(j *train.Job) { j.Batch, j.Accumulate = 16, 2 }), nil)
	if a.SHA256 != b.SHA256 {
		t.Error("twice a batch of 8 in two micro-batches is not a batch of 16 in two")
	}
}

// The virtual clock bills what a pass computes, and planned epochs take fewer updates.
func TestGrowthTakesItsTime(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	at := func(opts ...option) (seconds float64, updates int) { // of a sample
		j := job(t, append(opts, mode("reduce"), func(j *train.Job) {
			j.Timing.Law, j.Timing.FLOPS = nil, 1e5
			n, err := j.UpdatesIn(4)
			if err != nil {
				t.Fatal(err)
			}
			j.Updates = n
			j.Prepare()
		})...)
		o, _ := runOn(t, simulated(0), j, nil)
		return o.Final.Seconds / float64(o.Final.Samples), j.Updates
	}
	fixed, n := at()
	grown, m := at(growing("growth(factor=4,at=[2])"))
	if want := (1000 + 15) / 32 * 4; n < want || n > want+2 {
		t.Errorf("4 epochs are %d updates", n)
	}
	if m < n*5/8-1 || m > n*5/8+1 {
		t.Errorf("half of %d updates at four times the batch make %d", n, m)
	}
	if grown > fixed || grown < 0.95*fixed {
		t.Errorf("a sample takes %v s, of larger batches %v s", fixed, grown)
	}
}

// Runs go on from any checkpoint, before and behind a growth.
func TestGrowthResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range grown {
		t.Run(name, func(t *testing.T) {
			opts := append(slices.Clone(opts), growing("growth(factor=3,at=[0.5,1])"), ema(0.9, 1), func(j *train.Job) { j.Updates, j.CheckpointEvery = 24, 5 })
			if name == "gossip" {
				opts = append(opts, ema(0, 1))
			}
			resumes(t, 3, opts...)
		})
	}
}

// Where workers do not step together, or there is no such batch, it is refused.
func TestGrowthIsRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"do not step together":     {policy("asp"), growing("growth")},
		"workers do not step":      append(ofSandblaster(4), growing("growth")),
		"makes a batch of 0":       {mode("reduce"), growing("stages(times=[0.01],at=[])")},
		"more than 10000000 steps": {mode("reduce"), growing("growth"), func(j *train.Job) { j.Updates = math.MaxInt32 }},
	} {
		if want == "more than 10000000 steps" && !patience.Long {
			continue
		}
		if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
