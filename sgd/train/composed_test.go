package train_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// composed is mode server, made of what package train exports, with a rule.
type composed struct {
	train.Server
	rule train.Rule
}

func (m composed) Part(r *train.Rank) (train.Part, error) {
	if r.ID() >= r.Job().Workers {
		return train.Serve(r, m.rule)
	}
	l, err := train.NewLinks(r)
	return &linked{l, m.Barrier}, err
}

type linked struct {
	*train.Links
	barrier bool // parameters are asked for
}

func (w *linked) Run(ctx context.Context) error {
	if err := w.Resume(ctx); err != nil {
		return err
	}
	for pass := w.Pass(); !w.Over(); {
		if err := w.Compute(ctx, pass); err != nil {
			return err
		}
		if err := w.Push(ctx, uint64(w.Step())); err != nil {
			return err
		}
		if err := w.Made(ctx); err != nil {
			return err
		}
		if err := w.Await(ctx); err != nil {
			return err
		}
		if w.barrier && !w.Over() {
			if err := w.Fetch(ctx, 0); err != nil {
				return err
			}
		}
		if err := w.Mark(ctx, w); err != nil {
			return err
		}
	}
	return w.Bye(ctx)
}

// A mode of Links and Serve is mode server, to the last bit and nanosecond, and goes on
// from its checkpoints.
func TestComposedServers(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"bsp": {policy("bsp")}, "asp": {policy("asp")}, "softsync": {policy("softsync(n=2)")}, "ssp": {policy("ssp(slack=1)")},
		"memory":           {policy("asp"), with("feedback(topk(keep=0.2))"), down("qsgd(bits=8)")},
		"receivers":        {policy("bsp"), with("ef21(topk(keep=0.3))")},
		"corrector":        {policy("asp"), corrector("dcasgd")},
		"worker corrector": {policy("asp"), optimizer("sgd"), corrector("dana_slim")},
		"adam, kept":       {policy("bsp"), optimizer("adam"), func(j *train.Job) { n := 0; j.Due = func() bool { n++; return n%9 == 0 } }},
	} {
		t.Run(name, func(t *testing.T) {
			opts = append(opts, func(j *train.Job) { j.Servers, j.Updates, j.EvalEvery = 2, 40, 15 })
			if name != "adam, kept" {
				opts = append(opts, func(j *train.Job) { j.CheckpointEvery = 6 })
			}
			made := func(m train.Mode, from *checkpoint.State) (*train.Observer, *sink) {
				start := time.Duration(0)
				if from != nil {
					start = time.Duration(from.Ints["nanoseconds"])
				}
				return runOn(t, simulated(start), job(t, append(opts, func(j *train.Job) { j.Mode = m })...), from)
			}
			want, kept := made(train.Server{}, nil)
			got, same := made(composed{}, nil)
			if got.SHA256 != want.SHA256 || !reflect.DeepEqual(got.Final, want.Final) {
				t.Errorf("it ends with %.8s and %+v, mode server with %.8s and %+v", got.SHA256, got.Final, want.SHA256, want.Final)
			}
			if len(same.states) == 0 || len(same.states) != len(kept.states) {
				t.Fatalf("%d checkpoints, of mode server %d", len(same.states), len(kept.states))
			}
			first := slices.Min(slices.Collect(maps.Keys(kept.states)))
			if on, _ := made(composed{}, kept.states[first]); on.SHA256 != want.SHA256 {
				t.Errorf("from checkpoint %d of mode server it ends with %.8s, want %.8s", first, on.SHA256, want.SHA256)
			}
		})
	}
}

// A rule takes the place of the job's optimizer and schedule, each by itself.
func TestRules(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	adam, falling := sgd.Optimizers.MustParse("adam"), lrschedule.Specs.MustParse("cosine(lr=0.02)")
	plain := []option{policy("asp"), optimizer("sgd"), func(j *train.Job) { j.Servers, j.Updates = 2, 40 }}
	end := func(opts ...option) string {
		o, _ := runOn(t, simulated(0), job(t, append(slices.Clone(plain), opts...)...), nil)
		return o.SHA256
	}
	seen := map[string]string{}
	for name, c := range map[string]struct {
		rule train.Rule
		as   option // mode server with a job that says so
	}{
		"none":      {train.Rule{}, func(*train.Job) {}},
		"optimizer": {train.Rule{Optimizer: adam}, func(j *train.Job) { j.Optimizer = adam }},
		"schedule":  {train.Rule{Schedule: falling}, func(j *train.Job) { j.Schedule = falling }},
		"both":      {train.Rule{Optimizer: adam, Schedule: falling}, func(j *train.Job) { j.Optimizer, j.Schedule = adam, falling }},
	} {
		got, want := end(func(j *train.Job) { j.Mode = composed{rule: c.rule} }), end(c.as)
		if got != want {
			t.Errorf("%s: it ends with %.8s, want %.8s", name, got, want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("rules %s and %s end alike", name, other)
		}
		seen[got] = name
	}
}

// Parameters that are asked for come in as many parts as the servers cut them, and what
// takes whole shards refuses parts.
func TestFetchedInParts(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, overlap := range map[string]train.Overlap{"whole": train.Behind{}, "parts": train.Buckets{Bytes: 300}} {
		opts := []option{policy("bsp"), func(j *train.Job) { j.Servers, j.Updates, j.Overlap = 2, 30, overlap }}
		made := func(m train.Mode) *train.Observer {
			o, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) { j.Mode = m })...), nil)
			return o
		}
		want, got := made(train.Server{Barrier: true}), made(composed{Server: train.Server{Barrier: true}})
		if got.SHA256 != want.SHA256 || got.Final.BytesDown != want.Final.BytesDown {
			t.Errorf("%s: %.8s and %d bytes down, want %.8s and %d", name, got.SHA256, got.Final.BytesDown, want.SHA256, want.Final.BytesDown)
		}
	}
	j := job(t, func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 300} })
	if _, err := train.NewShardServer(train.NewRank(j, j.Workers)); err == nil || !strings.Contains(err.Error(), "refuse overlap") {
		t.Errorf("a server of whole pushes, and a shard in parts: %v", err)
	}
}
