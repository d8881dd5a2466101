package train_test

import (
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd/train"
)

// exchanges are codecs with rounds of their own, which ask the engine for every
// operation it knows.
var exchanges = []string{
	"feedback(powersgd(rank=2))",
	"intsum(bits=8,bucket=64)",
	"feedback(intsum(bits=4,bucket=64))",
	"terngrad(bucket=64,shared=true)",
	"feedback(thc)",
}

// Codecs with rounds of their own learn in every mode, alike on a real net and
// a virtual one, overlapped or not, and go on from a checkpoint bit for bit.
func TestExchanges(t *testing.T) {
	for _, codec := range exchanges {
		for name, opts := range map[string][]option{
			"reduce":  {mode("reduce")},
			"overlap": {mode("reduce"), topology("direct"), func(j *train.Job) { j.Overlap, j.Bucket = true, 600 }},
			"gather":  {mode("gather")},
			"server":  {func(j *train.Job) { j.Servers = 2 }},
		} {
			t.Run(codec+"/"+name, func(t *testing.T) {
				opts := append(opts, with(codec), func(j *train.Job) {
					j.Updates, j.CheckpointEvery = 150, 70
					j.Schedule = lrschedule.Specs.MustParse("constant(lr=0.02)")
				})
				loc, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
				vir, s := runOn(t, simulated(0), job(t, opts...), nil)
				if vir.SHA256 != loc.SHA256 {
					t.Error("sim and local differ in their bits")
				}
				if loc.Final.Accuracy < 0.7 || loc.Final.Step != 150 {
					t.Errorf("ended with %+v", loc.Final)
				}
				st := s.states[70]
				b, err := st.Encode(nil, vir.Job.Model.Layout())
				if err != nil {
					t.Fatal(err)
				}
				if st, err = train.DecodeState(b, vir.Job.Model.Layout()); err != nil {
					t.Fatal(err)
				}
				again, _ := runOn(t, simulated(time.Duration(st.Ints["nanoseconds"])), job(t, opts...), st)
				if again.SHA256 != vir.SHA256 {
					t.Error("other bits at the end after a resume")
				}
			})
		}
	}
}
