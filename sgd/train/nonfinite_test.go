package train_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// spoiling is a model whose gradients of the 5th step on have a NaN in span 1.
type spoiling struct{ sgd.Model }

func (m spoiling) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	const span = 1
	spoil := func() {
		if b.First >= 5*32 {
			m.Layout().View(p.Grad, span)[2] = float32(math.NaN())
		}
	}
	if ready := p.Ready; ready != nil {
		p.Ready = func(i int) error {
			if i == span {
				spoil()
			}
			return ready(i)
		}
		return m.Model.Grad(ctx, p, b)
	}
	loss, err := m.Model.Grad(ctx, p, b)
	spoil()
	return loss, err
}

// A gradient with NaN ends the run with the tensor named, or is counted and
// leaves no trace, also where it leaves span by span.
func TestF17NonFinite(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"reduce": {mode("reduce")}, "server": {}, "downpour": {mode("downpour"), policy("asp")},
		"reduce overlap": {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
		"server overlap": {func(j *train.Job) { j.Overlap, j.Servers = train.Buckets{}, 3 }},
	} {
		for netName, net := range map[string]func() comm.Net{"local": func() comm.Net { return &local.Net{} }, "sim": func() comm.Net { return simulated(0) }} {
			t.Run(name+" on "+netName, func(t *testing.T) {
				opts := append(opts, func(j *train.Job) {
					j.Model, j.Updates = spoiling{j.Model}, 20
				})
				j := job(t, opts...)
				programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
				if err != nil {
					t.Fatal(err)
				}
				name := j.Model.Layout().Spans[1].Name
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := net().Run(ctx, programs); err == nil || !strings.Contains(err.Error(), name+" has NaN") {
					t.Errorf("ended with %v, want %s named", err, name)
				}
				o, _ := runOn(t, net(), job(t, append(opts, func(j *train.Job) { j.NonFinite = "zero" })...), nil)
				if !f32.AllFinite(o.Params) {
					t.Error("NaN reached the parameters")
				}
				zeroed := uint64(0)
				for _, r := range o.Reports {
					zeroed += r.Zeroed
				}
				if zeroed == 0 {
					t.Error("nothing was counted")
				}
			})
		}
	}
}

// What was counted before a stop is counted behind it, too.
func TestCountsResume(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"server": {}, "reduce": {mode("reduce")}, "localsgd": {mode("localsgd(h=2)")}, "easgd": {mode("easgd(tau=2)"), policy("asp"), optimizer("sgd")},
		"downpour": {mode("downpour"), policy("asp")}, "dpsgd": {mode("dpsgd"), graph("ring")}, "adpsgd": {mode("adpsgd"), graph("ring"), func(j *train.Job) { j.Updates = 240 }},
	} {
		t.Run(name, func(t *testing.T) {
			whole, _, again := resumes(t, 1, append(opts, func(j *train.Job) {
				j.Model, j.NonFinite, j.CheckpointEvery = spoiling{j.Model}, "zero", 8
			})...)
			count := func(o *train.Observer) (zeroed, delays uint64) {
				for _, r := range o.Reports {
					zeroed += r.Zeroed
					for _, n := range r.Delays {
						delays += n
					}
				}
				return zeroed, delays
			}
			zeroed, delays := count(whole)
			for _, o := range again {
				if z, d := count(o); z != zeroed || d != delays || z == 0 {
					t.Errorf("resumed: %d gradients zeroed and %d told late, want %d and %d", z, d, zeroed, delays)
				}
			}
		})
	}
}
