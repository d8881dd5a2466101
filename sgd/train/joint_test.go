package train_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// normal is a small net with batch norms, on images, in mode reduce.
func normal(ghost int) option {
	shape := sgd.Shape{C: 3, H: 8, W: 8}
	net, err := nn.New(sgd.Sample{Shape: shape, Classes: 10}, 0, nn.Conv{Out: 6, Kernel: 3, Pad: 1}, nn.BatchNorm{Ghost: ghost}, nn.ReLU{}, nn.GlobalAvgPool{}, nn.Dense{Out: 10}, nn.BatchNorm{Ghost: ghost})
	if err != nil {
		panic(err)
	}
	return func(j *train.Job) {
		j.Model, j.Updates = net, 12
		j.Data = sgd.Dataset{Train: clusters{1000, shape, 3, false}, Test: clusters{50, shape, 3, true}}
		mode("reduce")(j)
	}
}

func group(n int) option { return func(j *train.Job) { j.NormGroup = n } }

// Four workers that share statistics are one on the union of their batches, two groups
// of two are two workers with twice the batch; and so it is with micro-batches, with
// gather, and with one core for all.
func TestJointNormsAreTheUnion(t *testing.T) {
	t.Parallel()
	on := func(workers, batch, norms int, more ...option) *train.Observer {
		opts := append(slices.Concat([]option{normal(0)}, more), group(norms), func(j *train.Job) { j.Workers, j.Batch = workers, batch })
		o, _ := runOn(t, simulated(0), job(t, opts...), nil)
		l, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
		if l.SHA256 != o.SHA256 {
			t.Errorf("%d workers, groups of %d: sim and local differ in their bits", workers, norms)
		}
		return o
	}
	one, two, apart := on(1, 32, 1), on(2, 16, 1), on(4, 8, 1)
	for what, d := range map[string]float64{
		"all and one":           distance(one.Params, on(4, 8, 4).Params),
		"pairs and two":         distance(two.Params, on(4, 8, 2).Params),
		"gather, all and one":   distance(one.Params, on(4, 8, 4, mode("gather")).Params),
		"two micro-batches":     distance(on(1, 32, 1, micros(2)).Params, on(2, 16, 2, micros(2)).Params),
		"threads, all and one":  distance(one.Params, on(4, 8, 4, func(j *train.Job) { j.Threads = 1 }).Params),
		"measured, all and one": distance(one.Params, on(4, 8, 4, func(j *train.Job) { j.NoiseScale = true }).Params),
	} {
		if d > 1e-5 && what != "two micro-batches" {
			t.Errorf("%s: %g apart", what, d)
		}
		if what == "two micro-batches" && d > 0.1 { // other samples meet in a micro-batch
			t.Errorf("%s: %g apart", what, d)
		}
	}
	if d := distance(one.Params, apart.Params); d < 1e-3 {
		t.Errorf("each worker by itself is only %g from one worker on the union", d)
	}
}

// The virtual clock and the count of bytes know of the sums: 8 bytes each, gathered by
// all, ahead and back.
func TestJointNormsAreBilled(t *testing.T) {
	t.Parallel()
	run := func(norms int) *train.Observer {
		o, _ := runOn(t, simulated(0), job(t, normal(0), group(norms), func(j *train.Job) { j.Timing.Law = nil }), nil)
		return o
	}
	apart, all := run(1), run(4)
	const sums = 2*6 + 1 + 2*10 + 1 + 2*10 + 2*6 // of two batch norms
	if got, want := all.Final.BytesUp-apart.Final.BytesUp, uint64(12*4*3*8*sums); got != want {
		t.Errorf("sums of %d values take %d bytes, want %d", sums, got, want)
	}
	if a, b := apart.Final.Seconds, all.Final.Seconds; b < a+12*4*3*100e-6 {
		t.Errorf("12 steps take %v s, with four rounds of sums over three links in each %v s", a, b)
	}
}

// Runs without content, from which others are priced, have the same times and bytes.
func TestJointNormsWeightless(t *testing.T) {
	t.Parallel()
	j := job(t, normal(0), group(2), micros(2))
	o, _ := runOn(t, simulated(0), j, nil)
	h, _ := runOn(t, simulated(0), job(t, normal(0), group(2), micros(2), weightless(&wire.Sizes{})), nil)
	if h.Final.Seconds != o.Final.Seconds || h.Final.BytesUp != o.Final.BytesUp || h.Final.BytesUp == 0 {
		t.Errorf("weightless: %v s and %d bytes, not %v s and %d", h.Final.Seconds, h.Final.BytesUp, o.Final.Seconds, o.Final.BytesUp)
	}
}

// A run goes on from any checkpoint with the same bits.
func TestJointNormsResume(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	resumes(t, 3, normal(0), group(2), ema(0.9, 1), micros(2), growing("growth(factor=2,at=[0.2])"), func(j *train.Job) { j.CheckpointEvery = 3 })
}

// A worker that dies in the middle of a pass ends the run with its name, and passes that
// wait for it end, too.
func TestJointNormsEnd(t *testing.T) {
	t.Parallel()
	whole, _ := runOn(t, simulated(0), job(t, normal(0), group(4)), nil)
	for _, share := range []float64{0.2, 0.5, 0.55, 0.6, 0.8} {
		j := job(t, normal(0), group(4))
		o := &train.Observer{Job: j, Sink: &sink{}}
		programs, err := j.Programs(o)
		if err != nil {
			t.Fatal(err)
		}
		net := simulated(0).(*sim.Net)
		net.Faults = []nemesis.Act{{Rank: 2, At: time.Duration(share * whole.Final.Seconds * 1e9)}}
		if err := net.Run(t.Context(), programs); err == nil || !strings.Contains(err.Error(), "rank 2") {
			t.Errorf("a death at %v of the run: %v", share, err)
		}
	}

}

// What cannot be is refused.
func TestJointNormsAreRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"a divisor of workers":       {normal(0), group(3)},
		"groups of as many":          {normal(0), group(8)},
		"do not go together":         {normal(0), mode("server"), group(2)},
		"overlap=none":               {normal(0), group(2), func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"ghost batches, which are":   {normal(4), group(2)},
		"no batch norm whose statis": {mode("reduce"), group(2)},
	} {
		if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
