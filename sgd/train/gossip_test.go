package train_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// In their limits the modes that gossip are synchronous SGD: on the complete
// graph when they adapt first, and with one worker.
func TestGossipLimits(t *testing.T) {
	t.Parallel()
	few := func(j *train.Job) { j.Updates = 120 }
	sync, _ := runOn(t, simulated(0), job(t, mode("reduce"), optimizer("sgd"), few), nil)
	one := func(j *train.Job) { j.Workers, j.Batch, j.Updates = 1, 32, 120 }
	alone, _ := runOn(t, simulated(0), job(t, mode("reduce"), one), nil)
	for _, text := range []string{"dpsgd(adapt=true)", "sgp", "choco(gamma=1)"} {
		o, _ := runOn(t, simulated(0), job(t, mode(text), graph("complete"), optimizer("sgd"), few), nil)
		if d := distance(sync.Params, o.Params); d > 1e-4 {
			t.Errorf("%s on the complete graph: relative distance to synchronous SGD is %g", text, d)
		}
		if o.Final.Spread > 1e-5 {
			t.Errorf("%s on the complete graph: workers are %g apart", text, o.Final.Spread)
		}
	}
	for _, text := range []string{"dpsgd", "dpsgd(adapt=true)", "sgp", "sgp(late=3)", "adpsgd", "agp", "choco(gamma=1)"} {
		o, _ := runOn(t, simulated(0), job(t, mode(text), graph("ring"), one), nil)
		if d := distance(alone.Params, o.Params); d > 1e-6 || o.Final.Step != 120 {
			t.Errorf("%s with one worker: relative distance to SGD is %g after %d steps", text, d, o.Final.Step)
		}
	}
	o, _ := runOn(t, &local.Net{}, job(t, mode("hogwild"), one), nil)
	if o.SHA256 != alone.SHA256 {
		t.Error("hogwild with one worker: other bits than SGD")
	}
}

// Bytes are those of the messages that were sent, and no others.
func TestGossipBytes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	const steps = 12
	for _, c := range []struct {
		mode, graph, codec string
		each               int // bytes a worker and step, over 8 workers
	}{
		{"dpsgd", "ring", "raw", 2 * 4 * 80},
		{"dpsgd", "complete", "fp16", 7 * 2 * 80},
		{"sgp", "one_peer", "raw", 4 * 80},
		{"sgp(late=3)", "one_peer", "bf16", 2 * 80},
		{"choco", "ring", "sign", 2 * (80 + 2*64) / 8}, // of 70 weights and 10 biases, in words, and two scales
		{"adpsgd", "ring", "raw", 2 * 4 * 80},
	} {
		o, _ := runOn(t, simulated(0), job(t, mode(c.mode), graph(c.graph), func(j *train.Job) {
			with(c.codec)(j)
			shape := sgd.Shape{C: 1, H: 1, W: 7}
			j.Workers, j.Updates, j.CheckpointEvery = 8, steps, 5
			if c.mode == "adpsgd" {
				j.Updates *= 8
			}
			j.Model = model(t, "logistic", shape) // 80 parameters
			j.Data = sgd.Dataset{Train: clusters{100, shape, 3, false}, Test: clusters{20, shape, 3, true}}
		}), nil)
		var sent, got uint64
		total := 0
		for _, r := range o.Reports {
			sent += r.Traffic.SentBytes[comm.Gradient]
			got += r.Traffic.RecvBytes[comm.Gradient]
			total += r.Steps
		}
		if c.codec == "sign" { // whatever the codec says, it is sent to both neighbours
			if sent == 0 || sent%2 != 0 || sent != got || o.Final.BytesUp != sent {
				t.Errorf("%s: %d bytes sent, %d received, %d told", c.mode, sent, got, o.Final.BytesUp)
			}
			continue
		}
		if want := uint64(c.each * total); sent != want || got > sent {
			t.Errorf("%s on %s: %d bytes sent, %d received, want %d", c.mode, c.graph, sent, got, want)
		}
		if c.mode != "adpsgd" && o.Final.BytesUp != sent {
			t.Errorf("%s: the last evaluation says %d of %d bytes", c.mode, o.Final.BytesUp, sent)
		}
	}
}

// A slow worker holds up those who wait for it, and nobody else; the others'
// model is there to be evaluated all the time.
func TestSlowWorker(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	took := func(text, g string, slow float64) float64 {
		o, s := runOn(t, simulated(0), job(t, mode(text), graph(g), rate("constant(lr=0.02)"), func(j *train.Job) {
			j.Timing = timing.Timing{FLOPS: 1e7, Slow: timing.Slow{{Count: 1, Factor: slow}}} // a step of a worker takes some ms
			j.Workers, j.Updates, j.EvalEvery = 8, 40*each(j)*2, 20*each(j)*2
			if each(j) == 1 {
				j.Updates /= 2
				j.EvalEvery /= 2
			}
		}), nil)
		if len(s.evals) < 2 || o.Final.Values["accuracy"] < 0.5 {
			t.Errorf("%s, slow %v: %d evaluations, ended with %+v", text, slow, len(s.evals), o.Final)
		}
		return o.Final.Seconds
	}
	for _, c := range []struct {
		mode, graph string
		stalls      bool
	}{
		{"reduce", "ring", true}, {"dpsgd", "ring", true}, {"sgp", "one_peer", true}, {"sgp(late=2)", "one_peer", true},
		{"adpsgd", "ring", false}, {"agp", "one_peer", false},
	} {
		ratio := took(c.mode, c.graph, 50) / took(c.mode, c.graph, 1)
		if c.stalls != (ratio > 20) || (!c.stalls && ratio > 1.5) {
			t.Errorf("%s: one worker 50 times slower makes the run take %.2f times as long", c.mode, ratio)
		}
	}
}

// Hogwild learns, goes on from a stop, and is refused where there is no memory
// to share.
func TestHogwild(t *testing.T) {
	t.Parallel()
	// Enough steps that the observer, whom nobody waits for, gets to see some.
	updates := 32000
	if patience.Raced() { // a step takes many times as long
		updates /= 8
	}
	opts := []option{mode("hogwild"), optimizer("sgd"), rate("constant(lr=0.05)"), func(j *train.Job) { j.Updates, j.EvalEvery, j.CheckpointEvery = updates, updates/4, updates/64 }}
	o, s := runOn(t, &local.Net{}, job(t, opts...), nil)
	if o.Final.Values["accuracy"] < 0.8 || o.Final.Step != updates || len(s.evals) < 3 || len(s.states) == 0 {
		t.Errorf("%d evaluations, %d checkpoints, ended with %+v", len(s.evals), len(s.states), o.Final)
	}
	var steps, counted uint64
	for _, r := range o.Reports {
		steps += r.Sent
		for _, n := range r.Delays {
			counted += n
		}
		if r.Traffic.SentBytes != [comm.NumKinds]uint64{} {
			t.Errorf("rank %d sent %v", r.Rank, r.Traffic.SentBytes)
		}
	}
	if steps < uint64(updates) || counted != steps {
		t.Errorf("%d steps, staleness of %d", steps, counted)
	}
	on, _ := runOn(t, &local.Net{}, job(t, append(opts, func(j *train.Job) { j.Updates = updates + 400 })...), s.last)
	if on.Final.Step != updates+400 || on.Final.Values["accuracy"] < 0.8 {
		t.Errorf("went on to %+v", on.Final)
	}

	j := job(t, opts...)
	programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := simulated(0).Run(ctx, programs); err == nil || !strings.Contains(err.Error(), "net=local") {
		t.Errorf("on the virtual cluster: %v", err)
	}
	j.Here = 1
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), "net=local") {
		t.Errorf("in processes: %v", err)
	}
}

// The longer overlap-SGP goes without messages, the less weight it is left with and
// the longer its steps: late has an end, which says why.
func TestLateHasAnEnd(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"sgp(late=0)": true, "sgp(late=8)": true, "sgp(late=9)": false, "sgp(late=-1)": false} {
		_, err := train.Modes.Parse(text)
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "want 0 to 8: until the first message arrives") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// On a graph that keeps less it ends sooner.
func TestLateEndsByTheGraph(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		graph string
		most  int
	}{{"one_peer", 6}, {"ring", 3}, {"complete", 2}, {"exponential", 3}} {
		for _, late := range []int{c.most, c.most + 1, 8} {
			j := job(t, graph(c.graph), func(j *train.Job) { j.Workers = 8 })
			j.Mode = gossip.SGP{Late: late}
			j.Prepare()
			err := j.Check()
			if ok := late <= c.most; ok != (err == nil) || !ok && !strings.HasSuffix(err.Error(), fmt.Sprintf("want at most %d", c.most)) {
				t.Errorf("late=%d on %s: %v", late, c.graph, err)
			}
		}
	}
}

// What a mode cannot do is refused, with the way out.
func TestGossipRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]string{
		{"dpsgd", "one_peer", "raw", "directed"},
		{"adpsgd", "one_peer", "raw", "directed"},
		{"dpsgd", "ring", "topk(keep=0.1)", "choco"},
		{"sgp", "one_peer", "qsgd", "choco"},
		{"agp", "one_peer", "sign", "choco"},
		{"choco", "pairs", "topk(keep=0.1)", "changes"},
		{"choco", "ring", "feedback(topk(keep=0.1))", "feedback"},
		{"choco", "ring", "ef21(topk(keep=0.1))", "codec inside"},
		{"choco", "ring", "dgc", "without memory"},
		{"hogwild", "ring", "sign", "nothing"},
	} {
		j := job(t)
		mode(c[0])(j)
		graph(c[1])(j)
		with(c[2])(j)
		j.Prepare()
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), c[3]) {
			t.Errorf("%v: %v", c, err)
		}
		if c[0] == "dpsgd" || c[0] == "sgp" {
			j := job(t)
			mode(c[0])(j)
			graph("complete")(j)
			j.Overlap = train.Buckets{}
			if err := j.Check(); err == nil {
				t.Error("overlap is accepted")
			}
		}
	}
}
