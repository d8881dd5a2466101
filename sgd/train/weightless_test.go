package train_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

// A run without weights that is asked to stop ends after the step it is in. It
// has nothing to keep, and no checkpoint is written.
func TestWeightlessStops(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"reduce":   {mode("reduce")},
		"overlap":  {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"priority": {mode("reduce"), prior(500)},
		"gather":   {mode("gather"), with("qsgd")},
		"bsp":      {mode("server"), policy("bsp")},
		"asp":      {mode("server"), policy("asp"), func(j *train.Job) { j.Servers, j.Placement = 2, ps.Balanced{} }},
		"softsync": {mode("server"), policy("softsync(n=2)")},
		"rudra":    {mode("rudra(tree=2)"), workers(8), policy("softsync(n=2)")},
		"local":    {mode("localsgd(h=3)")},
		"dpsgd":    {mode("dpsgd"), graph("ring")},
		"sgp":      {mode("sgp(late=1)"), graph("one_peer")},
		"adpsgd":   {mode("adpsgd"), graph("ring")},
		"adv*":     {mode("rudra(tree=2,threads=true)"), workers(8), policy("softsync(n=2)")},
	} {
		t.Run(name, func(t *testing.T) {
			var polls atomic.Int64
			j := job(t, append(opts, func(j *train.Job) {
				j.Weightless, j.EvalEvery, j.CheckpointEvery, j.Updates = true, 0, 0, 1000
				j.Stopping = func() bool { return polls.Add(1) > 20 }
			})...)
			o, s := runOn(t, simulated(0), j, nil)
			if len(s.states) > 0 {
				t.Error("a checkpoint was written")
			}
			if o.Final.Step == 0 || o.Final.Step >= j.Updates {
				t.Errorf("ended after %d updates", o.Final.Step)
			}
		})
	}
}

// A run without weights knows what every rank sends, or is refused.
func TestWeightlessWantsExactSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, codec string
		ok          bool
	}{
		{"reduce", "topk(keep=0.1,index=raw32)", true},
		{"reduce", "topk(keep=0.1)", false},
		{"gather", "feedback(powersgd(rank=1,gain=1))", true},
		{"reduce", "sketch(keep=0.05,rows=1,width=2)", true},
		{"gather", "sketch(keep=0.05,rows=1,width=2)", false}, // there it is topk
		{"reduce", "entropy(intsum)", false},                  // its payloads are gathered
		{"reduce", "feedback(entropy(powersgd(gain=1)))", false},
		{"reduce", "cltk(keep=0.1,index=raw32)", false}, // one rank sends positions
		{"gather", "cltk(keep=0.1,index=raw32)", true},
	} {
		j := job(t, mode(c.mode), func(j *train.Job) { j.Weightless, j.EvalEvery = true, 0 })
		with(c.codec)(j)
		j.Prepare()
		if err := j.Check(); (err == nil) != c.ok || !c.ok && !strings.Contains(err.Error(), "depends on the data") {
			t.Errorf("mode %s, %s: %v", c.mode, c.codec, err)
		}
	}
}
