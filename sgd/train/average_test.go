package train_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

func ema(decay float64, every int) option {
	return func(j *train.Job) { j.EMA, j.EMAEvery = decay, every }
}

// The average is that of its formula, over the parameters that checkpoints have
// behind every update, on servers as in rings, and by parts.
func TestAverageIsItsFormula(t *testing.T) {
	t.Parallel()
	const decay, every, updates = 0.8, 3, 20
	for name, opts := range map[string][]option{
		"ring": {mode("reduce")}, "ring, first": {mode("reduce"), prior(500)}, "two shards": {func(j *train.Job) { j.Servers = 2 }},
		"lars": {mode("reduce"), optimizer("lars(trust=0.02)")}, "rounds": {mode("localsgd(h=1,start=4)")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(opts, func(j *train.Job) { j.Updates, j.CheckpointEvery = updates, 1 })
			plain, s := runOn(t, simulated(0), job(t, opts...), nil)
			want := make([]float64, len(plain.Params))
			first := make([]float32, len(want))
			plain.Job.Model.Init(first, plain.Job.Seed)
			for i, x := range first {
				want[i] = float64(x)
			}
			for v := every; v <= updates; v += every {
				for i, x := range s.states[v].Vectors["param"] {
					want[i] = decay*want[i] + (1-decay)*float64(x)
				}
			}
			o, _ := runOn(t, simulated(0), job(t, append(opts, ema(decay, every))...), nil)
			far := 0.0
			for i, x := range o.Params {
				far = max(far, math.Abs(float64(x)-want[i]))
			}
			if far > 1e-6 || !o.Final.Averaged || o.Final.Values["loss"] == plain.Final.Values["loss"] {
				t.Errorf("the average is %g from its formula; evaluated is %+v, without %+v", far, o.Final, plain.Final)
			}
			l, _ := runOn(t, &local.Net{}, job(t, append(opts, ema(decay, every))...), nil)
			if l.SHA256 != o.SHA256 {
				t.Error("sim and local differ in their bits")
			}
		})
	}
}

// Where nobody has the parameters that are evaluated, or the share is none, there is
// no average.
func TestAverageIsRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"ema: decay is 1:":     {ema(1, 1)},
		"ema: decay is -0.5:":  {ema(-0.5, 1)},
		"ema: decay is NaN:":   {ema(math.NaN(), 1)},
		"ema: every is -1:":    {ema(0.5, -1)},
		"the workers' own":     {mode("dpsgd"), graph("ring"), ema(0.5, 1)},
		"best point of a line": append(ofSandblaster(4), ema(0.5, 1)),
	} {
		if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Runs go on from any checkpoint with the average they had, when gradients come late
// as well.
func TestAverageResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, opts := range [][]option{
		{policy("asp"), func(j *train.Job) { j.Servers = 2 }}, {mode("easgd(tau=2)")}, {mode("reduce"), micros(2)},
	} {
		whole, s, _ := resumes(t, 2, append(opts, ema(0.9, 2), func(j *train.Job) { j.CheckpointEvery = 7 })...)
		for _, st := range s.states {
			delete(st.Vectors, "opt/average")
			o := &train.Observer{Job: job(t, append(opts, ema(0.9, 2), func(j *train.Job) { j.CheckpointEvery = 7 })...), Sink: &sink{}, Start: st}
			programs, err := o.Job.Programs(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := simulated(time.Duration(st.Ints["nanoseconds"])).Run(t.Context(), programs); err == nil || !strings.Contains(err.Error(), "opt/average") {
				t.Errorf("without the average of %d updates: %v", whole.Final.Step, err)
			}
			break
		}
	}
}
