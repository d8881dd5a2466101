package train_test

import (
	"math"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/mean"
)

func prior(bucket int) option {
	return func(j *train.Job) { j.Overlap = train.Priority{Bytes: bucket} }
}

// Whatever is exchanged first, on whichever clock, and however often the pass is
// interrupted: the run ends with the bits of one whose buckets keep their order.
func TestPriorityIsTheRoadWithout(t *testing.T) {
	t.Parallel()
	deep := func(j *train.Job) {
		j.Updates, j.EvalEvery, j.CheckpointEvery, j.Timing.FLOPS = 12, 5, 4, 1e7
		j.Model = model(t, "mlp(hidden=[16,12,16,12,16,12,16])", j.Data.Train.Sample().Shape)
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
			for i, cut := range []struct{ bucket, partition int }{{1000, 0}, {1, 300}, {1, 0}, {1000, 300}} {
				if i > 0 && !patience.Long {
					break
				}
				run := append(opts, func(j *train.Job) { j.Overlap = train.Buckets{Bytes: cut.bucket, Partition: cut.partition} })
				one, _ := runOn(t, simulated(0), job(t, run...), nil)
				run = append(run, func(j *train.Job) { j.Overlap = train.Priority{Bytes: cut.bucket, Partition: cut.partition} })
				v, s := runOn(t, simulated(0), job(t, run...), nil)
				if v.SHA256 != one.SHA256 {
					t.Errorf("%+v: the virtual run ends with other bits", cut)
				}
				if r, _ := runOn(t, simulated(0), job(t, run...), s.last); r.SHA256 != one.SHA256 {
					t.Errorf("%+v: resumed, the virtual run ends with other bits", cut)
				}
				if l, _ := runOn(t, &local.Net{}, job(t, run...), nil); l.SHA256 != one.SHA256 {
					t.Errorf("%+v: on the real clock the run ends with other bits", cut)
				}
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
func (layers) Metrics() []sgd.Metric  { return nil }

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
	t.Parallel()
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
					j.Model, j.Workers, j.Batch, j.Updates, j.Weightless, j.Timing.Law = m, 2, 1, steps, true, nil
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
				{"in the order of the backward pass", func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 1} }, steps * without},
				{"first layers first", prior(1), steps*(without+2*latency.Seconds()) - (steps-1)*hidden},
			} {
				if got := took(w.o); math.Abs(got/w.want-1) > 1e-4 {
					t.Errorf("%s, %d steps take %v s, want %v", w.how, steps, got, w.want)
				}
			}
		})
	}
}

// The same three layers with the last one cut in nine. The pieces of C that leave
// while B and A are computed go first, five times agreed on, then A, B and the rest
// of C, behind which the forward passes of A and B are hidden.
func TestPartitionHidesMore(t *testing.T) {
	t.Parallel()
	const (
		rate    = 1e6 // bytes a second
		latency = 10 * time.Microsecond
		steps   = 20
	)
	sizes, f := []int{2000, 6000, 50000}, []float64{0.030, 0.010, 0.020}
	m := layers{}
	for i, n := range sizes {
		m.layout.Add(string(rune('A'+i)), sgd.Weight, 1, n)
		m.flops = append(m.flops, f[i]*1e9)
	}
	j := job(t, mode("reduce"), topology("halving"), func(j *train.Job) {
		j.Model, j.Workers, j.Batch, j.Updates, j.Weightless, j.Timing.Law = m, 2, 1, steps, true, nil
		j.Overlap = train.Priority{Bytes: 1, Partition: 24000}
	})
	n := &sim.Net{Network: &sim.Fair{Bandwidth: rate, Latency: latency}}
	runOn(t, n, j, nil)
	exchanges := 4*58000/rate + (1+1+9)*2*latency.Seconds()
	want := steps*(3*f[2]+exchanges+5*latency.Seconds()) + f[0] + f[1]
	if got := n.Now().Seconds(); math.Abs(got/want-1) > 1e-4 {
		t.Errorf("%d steps take %v s, want %v", steps, got, want)
	}
}

// Where every value is summed in the order of ranks, or of a tree of them, a cut
// tensor comes to the same bits; and a codec that works value by value is not
// affected either.
func TestPartitionIsTheRoadWithout(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"tree":   {topology("tree")},
		"fp16":   {topology("tree"), with("fp16")},
		"gather": {mode("gather"), with("bf16")},
		"fused":  {topology("tree"), fused(time.Millisecond, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]option{mode("reduce"), func(j *train.Job) { j.Updates = 8 }}, opts...)
			var want string
			for _, bytes := range []int{0, 4, 100, 1000, 1 << 20} {
				o, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) {
					if o, ok := j.Overlap.(train.Fusion); ok {
						o.Partition = bytes
						j.Overlap = o
					} else {
						j.Overlap = train.Buckets{Partition: bytes}
					}
				})...), nil)
				if want == "" {
					want = o.SHA256
				}
				if o.SHA256 != want {
					t.Errorf("partition=%d: other bits", bytes)
				}
			}
		})
	}
}

// Priority, and partition, are refused where they mean nothing or cannot be had.
func TestPriorityIsRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]option{
		"servers":  func(j *train.Job) { j.Overlap = train.Priority{} },
		"no bytes": func(j *train.Job) { j.Mode, j.Overlap = mean.Reduce{}, train.Buckets{Bytes: -1} },
		"downpour": func(j *train.Job) {
			mode("downpour")(j)
			policy("asp")(j)
			j.Overlap = train.Buckets{Bytes: 500}
		},
		"cut to dust": func(j *train.Job) {
			j.Mode, j.Overlap = mean.Reduce{}, train.Buckets{Partition: 4}
			j.Model = model(t, "mlp(hidden=[512,512])", j.Data.Train.Sample().Shape)
		},
		"cut small":    func(j *train.Job) { j.Mode, j.Overlap = mean.Reduce{}, train.Buckets{Partition: 3} },
		"cut, servers": func(j *train.Job) { j.Overlap = train.Buckets{Partition: 1000} },
		"norms":        func(j *train.Job) { prior(0)(j); mode("reduce")(j); optimizer("chain(parts=[clip,momentum])")(j) },
	} {
		j := job(t)
		o(j)
		j.Prepare()
		if j.Check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
