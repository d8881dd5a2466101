package train_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// exchanges are codecs with rounds of their own, which ask the engine for every
// operation it knows.
var exchanges = []string{
	"feedback(powersgd(rank=2))",
	"intsum(bits=8,bucket=64)",
	"feedback(intsum(bits=4,bucket=64))",
	"terngrad(bucket=64,shared=true)",
	"feedback(thc)",
	"feedback(cltk(keep=0.3))",
	"feedback(sketch(keep=0.1,rows=3,width=2))",
	"ef21(topk(keep=0.3))",
	"feedback(scatter(sign))",
	"scatter(feedback(topk(keep=0.3)))",
	"accumulate(feedback(topk(keep=0.3)),every=2)",
	"accumulate(raw,every=3)",
	"byrole(feedback(cltk(keep=0.3)),bf16,raw)",
	"ef21(intsum(bits=4,bucket=64))",
	"bysize(ef21(powersgd(rank=2)),raw,limit=50)",
}

// Codecs with rounds of their own learn in every mode, alike on a real net and
// a virtual one, overlapped or not, and go on from a checkpoint bit for bit.
func TestExchanges(t *testing.T) {
	for i, codec := range exchanges {
		if !patience.Long && i%12 != 0 {
			continue
		}
		for name, opts := range map[string][]option{
			"reduce":   {mode("reduce")},
			"overlap":  {mode("reduce"), topology("direct"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
			"gather":   {mode("gather")},
			"server":   {func(j *train.Job) { j.Servers = 2 }},
			"downpour": {mode("downpour(n_fetch=2,n_push=2)"), policy("asp")},
			"asp":      {policy("asp"), func(j *train.Job) { j.Servers, j.Overlap = 2, train.Buckets{} }},
		} {
			t.Run(codec+"/"+name, func(t *testing.T) {
				t.Parallel()
				opts := append(opts, with(codec), func(j *train.Job) {
					j.Updates, j.CheckpointEvery = 150, 70
					if name == "asp" || name == "downpour" { // an update is one push, and a worker counts its own
						j.Updates, j.CheckpointEvery = 400, 50
					}
					j.Schedule = lrschedule.Specs.MustParse("constant(lr=0.02)")
				})
				loc, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
				vir, s := runOn(t, simulated(0), job(t, opts...), nil)
				if vir.SHA256 != loc.SHA256 && name != "asp" && name != "downpour" {
					t.Error("sim and local differ in their bits")
				}
				least := 0.7
				if name == "downpour" { // replicas drift apart
					least = 0.5
				}
				// How stale gradients are on a real clock is the machine's business.
				if vir.Final.Values["accuracy"] < least || vir.Final.Step != vir.Job.Updates {
					t.Errorf("ended with %+v", vir.Final)
				}
				if loc.Final.Step != loc.Job.Updates || math.IsNaN(loc.Final.Values["loss"]) || math.IsInf(loc.Final.Values["loss"], 0) {
					t.Errorf("on a real clock: ended with %+v", loc.Final)
				}
				if len(s.states) == 0 {
					t.Fatal("no checkpoint was written")
				}
				for v, st := range s.states {
					b, err := st.Encode(nil, vir.Job.Model.Layout())
					if err != nil {
						t.Fatal(err)
					}
					if st, err = checkpoint.Decode(b, vir.Job.Model.Layout()); err != nil {
						t.Fatal(err)
					}
					again, _ := runOn(t, simulated(time.Duration(st.Ints["nanoseconds"])), job(t, opts...), st)
					if again.SHA256 != vir.SHA256 {
						t.Errorf("resumed at %d: other bits at the end", v)
					}
				}
			})
		}
	}
}

// Differences to what the other end holds bring back what was left out, so codecs
// that keep it themselves are refused there: parameters would diverge.
func TestMemoriesAreRefusedDown(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"feedback(topk)", "strom", "adacomp", "dgc", "accumulate(raw,every=2)", "bysize(dgc,raw)", "entropy(strom)"} {
		for key, change := range map[string]option{"down_codec": down(codec), "codec": func(j *train.Job) {
			mode("easgd(tau=2)")(j)
			with(codec)(j)
		}} {
			j := job(t, optimizer("sgd"))
			change(j)
			if err := j.Check(); err == nil || !strings.Contains(err.Error(), key+" ") || !strings.Contains(err.Error(), "without memory") {
				t.Errorf("%s %s: %v", key, codec, err)
			}
		}
	}
	j := job(t)
	if down("feedback(topk,unchecked=true)")(j); j.Check() != nil {
		t.Errorf("unchecked feedback: %v", j.Check())
	}
}

// Codecs whose two ends must agree are refused where they would part.
func TestReceiversAreRefusedDown(t *testing.T) {
	t.Parallel()
	j := job(t)
	j.DownCodec = compress.EF21{In: compress.TopK{Keep: 0.1}}
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), "down_codec ef21") {
		t.Errorf("ef21 as down_codec: %v", err)
	}
}
