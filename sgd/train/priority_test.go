package train_test

import (
	"math"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

func prior(bucket int) option {
	return func(j *train.Job) { j.Overlap, j.Priority, j.Bucket = true, true, bucket }
}

// Whatever is exchanged first, on whichever clock, and however often the pass is
// interrupted: the run ends with the bits of one whose buckets keep their order.
func TestPriorityIsTheRoadWithout(t *testing.T) {
	deep := func(j *train.Job) {
		j.Updates, j.EvalEvery, j.CheckpointEvery, j.Timing.FLOPS = 12, 5, 4, 1e7
		j.Model = model(t, "mlp(hidden=[16,12,16,12,16,12,16])", j.Data.Train.Shape())
	}
	for name, opts := range map[string][]option{
		"raw":        {},
		"five":       {func(j *train.Job) { j.Workers = 5 }, optimizer("adam")},
		"alone":      {func(j *train.Job) { j.Workers = 1 }},
		"tree":       {topology("tree")},
		"powersgd":   {with("feedback(powersgd(rank=2))")},
		"topk":       {with("feedback(topk(keep=0.1))")},
		"intsum":     {with("intsum")},
		"accumulate": {with("accumulate(every=3)")},
		"gather":     {mode("gather"), with("qsgd")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]option{mode("reduce"), deep}, opts...)
			var one *train.Observer
			for _, bucket := range []int{1000, 1} {
				one, _ = runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) { j.Overlap, j.Bucket = true, bucket })...), nil)
				v, s := runOn(t, simulated(0), job(t, append(opts, prior(bucket))...), nil)
				if v.SHA256 != one.SHA256 {
					t.Errorf("bucket=%d: the virtual run ends with other bits", bucket)
				}
				if r, _ := runOn(t, simulated(0), job(t, append(opts, prior(bucket))...), s.last); r.SHA256 != one.SHA256 {
					t.Errorf("bucket=%d: resumed, the virtual run ends with other bits", bucket)
				}
			}
			if l, _ := runOn(t, &local.Net{}, job(t, append(opts, prior(1))...), nil); l.SHA256 != one.SHA256 {
				t.Error("on the real clock the run ends with other bits")
			}
		})
	}
}

// layers is a model of which only times and sizes count.
type layers struct {
	sgd.Model
	layout sgd.Layout
	flops  []float64
}

func (l layers) Layout() sgd.Layout   { return l.layout }
func (l layers) SpanFLOPs() []float64 { return l.flops }

// The gain is what three layers A, B, C in forward order let one work out, f being
// times of forward passes (backward ones take twice that) and c those of exchanges.
// If that of C takes longer than the backward pass of the others, the orders are
//
//	without  forward, backward of C, then c_C, c_B, c_A, then the update
//	with     forward, backward of C, then c_C, c_A; c_B behind the next f_A
//
// and with priority f_B waits for c_B where that outlasts f_A: a step takes
// f + 2·f_C + c_C + c_A + max(f_A, c_B) − f_A, in place of f + 2·f_C + c_A + c_B + c_C,
// and two times agreeing: before C, and before A, when all three are made.
func TestPriorityHidesLateLayers(t *testing.T) {
	const (
		rate    = 1e6 // bytes a second
		latency = time.Millisecond
		steps   = 20
	)
	sizes := []int{2000, 6000, 50000} // values
	m := layers{}
	for i, n := range sizes {
		m.layout.Add(string(rune('A'+i)), sgd.Weight, 1, n)
	}
	// Two ranks swap halves, twice.
	c := func(i int) float64 { return 2 * (4*float64(sizes[i])/2/rate + latency.Seconds()) }
	for name, f := range map[string][]float64{
		"hidden":      {0.030, 0.010, 0.020},
		"half hidden": {0.012, 0.010, 0.020},
	} {
		t.Run(name, func(t *testing.T) {
			m.flops = nil
			for _, seconds := range f {
				m.flops = append(m.flops, seconds*1e9)
			}
			took := func(o option) float64 {
				j := job(t, mode("reduce"), topology("halving"), o, func(j *train.Job) {
					j.Model, j.Workers, j.Batch, j.Updates, j.Weightless, j.Timing.Jitter = m, 2, 1, steps, true, 0
				})
				n := &sim.Net{Network: &sim.Fair{Bandwidth: rate, Latency: latency}}
				runOn(t, n, j, nil)
				return n.Now().Seconds()
			}
			pass, hidden := f[0]+f[1]+f[2]+2*f[2], math.Min(c(1), f[0])
			without := pass + c(0) + c(1) + c(2)
			for _, w := range []struct {
				how  string
				o    option
				want float64
			}{
				{"in the order of the backward pass", func(j *train.Job) { j.Overlap, j.Bucket = true, 1 }, steps * without},
				{"first layers first", prior(1), steps*(without+2*latency.Seconds()) - (steps-1)*hidden},
			} {
				if got := took(w.o); math.Abs(got/w.want-1) > 1e-4 {
					t.Errorf("%s, %d steps take %v s, want %v", w.how, steps, got, w.want)
				}
			}
		})
	}
}

// Priority is refused where it means nothing or cannot be had.
func TestPriorityIsRefused(t *testing.T) {
	for name, o := range map[string]option{
		"no overlap": func(j *train.Job) { j.Mode, j.Priority = train.Reduce{}, true },
		"servers":    func(j *train.Job) { j.Overlap, j.Priority = true, true },
		"fused":      func(j *train.Job) { fused(time.Second, 0)(j); j.Mode, j.Priority = train.Reduce{}, true },
		"norms":      func(j *train.Job) { prior(0)(j); mode("reduce")(j); optimizer("chain(parts=[clip,momentum])")(j) },
	} {
		j := job(t)
		o(j)
		j.Prepare()
		if j.Check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
