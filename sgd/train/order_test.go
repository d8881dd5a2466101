package train_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// logging is a sink that keeps the order log.
type logging struct {
	sink
	lines bytes.Buffer
}

func (l *logging) Order(b []byte) error { l.lines.Write(b); return nil }

// What really happened, in whatever order, happens again on the virtual cluster,
// bit for bit, whatever that one's own speeds are.
func TestReplayIsBitEqual(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range asynchronous {
		if strings.HasSuffix(name, "sync, 2 shards") {
			continue // refused
		}
		t.Run(name, func(t *testing.T) {
			opts := append(opts, func(j *train.Job) { j.Updates, j.LogOrder, j.CheckpointEvery = 120, true, 12 })
			j := job(t, opts...)
			s := &logging{}
			o := &train.Observer{Job: j, Sink: s}
			programs, err := j.Programs(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := (&local.Net{}).Run(context.Background(), programs); err != nil {
				t.Fatal(err)
			}
			order, err := train.ParseOrder(bytes.NewReader(s.lines.Bytes()), j.Servers)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) { j.Replay = order })...), nil)
			if again.SHA256 != o.SHA256 || again.Final.Step != o.Final.Step {
				t.Errorf("replayed to step %d with other bits; the run ended at %d", again.Final.Step, o.Final.Step)
			}
		})
	}
}

// A log that is not of this run is refused where it departs.
func TestReplayDeparts(t *testing.T) {
	t.Parallel()
	j := job(t, policy("asp"), func(j *train.Job) {
		j.Replay = [][]train.Arrival{{{Verb: train.Push, Worker: 1}, {Verb: train.Push, Worker: 1, Step: 1, Version: 7}}}
	})
	programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
	if err != nil {
		t.Fatal(err)
	}
	err = simulated(0).Run(context.Background(), programs)
	if err == nil || !strings.Contains(err.Error(), "step 1 on version 1 of worker 1, where the order log has step 1 on version 7") {
		t.Errorf("got %v", err)
	}
}

func TestParseOrderRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0 push 1 2", "1 push 0 0 0", "0 shove 0 0 0", "x", "-1 push 0 0 0"} {
		if _, err := train.ParseOrder(strings.NewReader(text), 1); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func FuzzParseOrder(f *testing.F) {
	f.Add("0 push 1 2 3\n1 pull 0 5 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		order, err := train.ParseOrder(strings.NewReader(text), 2)
		if err == nil && len(order) != 2 {
			t.Errorf("%d shards", len(order))
		}
	})
}

// A barrier's slowest worker is the one that is waited for, its gradients are
// the youngest, and nothing has moved; without a barrier, parameters have.
func TestMeasures(t *testing.T) {
	t.Parallel()
	slow := func(j *train.Job) { j.Gap, j.Timing.Law = true, timing.Lognormal{Sigma: 1} }
	o, _ := runOn(t, simulated(0), job(t, slow), nil)
	var workers float64
	for _, r := range o.Reports {
		if r.Role == "worker" {
			workers += r.Time.Wire + r.Time.Wait
			continue
		}
		if r.Gap == nil || r.Gap.Max != 0 || r.Gap.N != 240 {
			t.Errorf("bsp: gap %+v", r.Gap)
		}
		if r.Age == nil || r.Age.N != 240 || r.Age.Min <= 0 || r.Age.P50 > r.Age.P99 || r.Age.P99 > r.Age.Max {
			t.Errorf("bsp: age %+v", r.Age)
		}
		var waited, pairs float64
		for w, s := range r.Waits.Waited {
			waited += s
			for _, p := range r.Waits.Pairs[w] {
				pairs += p
			}
		}
		if waited <= 0 || waited-pairs > 1e-9 || pairs-waited > 1e-9 {
			t.Errorf("bsp: waited %g s, by pairs %g s", waited, pairs)
		}
	}
	if workers <= 0 {
		t.Error("nobody waited")
	}
	o, _ = runOn(t, simulated(0), job(t, slow, policy("asp")), nil)
	for _, r := range o.Reports {
		if r.Role == "server" && (r.Gap.Mean <= 0 || r.Waits != nil) {
			t.Errorf("asp: gap %+v, waits %+v", r.Gap, r.Waits)
		}
	}
}

// With one worker nothing is late, and what corrects momentum is momentum:
// DANA-Slim is Nesterov's, DANA-Zero the same seen from where it looks ahead.
func TestAloneCorrectorsAreMomentum(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	alone := func(j *train.Job) { j.Workers = 1 }
	for text, opt := range map[string]string{"dana_slim": "nesterov", "multi_asgd": "momentum", "implicit": "momentum"} {
		want, _ := runOn(t, simulated(0), job(t, alone, policy("asp"), optimizer(opt), learning(0.01)), nil)
		got, _ := runOn(t, simulated(0), job(t, alone, policy("asp"), optimizer("sgd"), corrector(text), learning(0.01)), nil)
		if d := distance(want.Params, got.Params); d > 1e-4 {
			t.Errorf("%s is %g from %s", text, d, opt)
		}
	}
	zero, _ := runOn(t, simulated(0), job(t, alone, policy("asp"), optimizer("sgd"), corrector("dana"), learning(0.01)), nil)
	slim, _ := runOn(t, simulated(0), job(t, alone, policy("asp"), optimizer("sgd"), corrector("dana_slim"), learning(0.01)), nil)
	if d := distance(zero.Params, slim.Params); d > 0.05 || zero.Final.Values["accuracy"] < 0.8 {
		t.Errorf("dana is %g from dana_slim; accuracy %g", d, zero.Final.Values["accuracy"])
	}
}

// Whatever amends late gradients is refused where none is late, where it cannot
// know what was sent, and where it would see a part.
func TestCorrectorsRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"none is late":          {corrector("dcasgd")},
		"must be raw":           {corrector("dcasgd"), policy("asp"), down("topk(keep=0.5)")},
		"use overlap=none":      {corrector("dana_slim"), optimizer("sgd"), policy("asp"), func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"use mode server":       {corrector("dana_slim"), optimizer("sgd"), policy("asp"), mode("downpour")},
		"has left already":      {policy("ksync"), func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"have applied to their": {policy("ksync"), mode("downpour")},
		"gap compares with":     {policy("asp"), down("topk(keep=0.5)"), func(j *train.Job) { j.Gap = true }},
	} {
		j := job(t)
		for _, o := range opts {
			o(j)
		}
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
}
