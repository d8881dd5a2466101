package train_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

func elastic(j *train.Job) { j.Elastic, j.Updates, j.EvalEvery = true, 24, 5 }

func servers(n int) option { return func(j *train.Job) { j.Servers = n } }

func leaving(d ...train.Departure) option { return func(j *train.Job) { j.Leaves = d } }

func killing(deaths ...nemesis.Act) comm.Net {
	n := simulated(0).(*sim.Net)
	n.Faults = deaths
	return n
}

// departures is the plan by which workers leave a run as they left one that was made.
func departures(o *train.Observer) []train.Departure {
	leaves, _ := train.PlanOf(o.Job.Workers, o.Job.Updates, o.Members)
	return leaves
}

// Elastic ways to train, each with something that a step that is called off must leave
// as it was.
var elasticWays = map[string][]option{
	"raw":            {mode("reduce")},
	"direct":         {mode("reduce"), topology("direct"), optimizer("adam")},
	"double tree":    {mode("reduce"), topology("double_tree")},
	"gather":         {mode("gather"), with("topk(keep=0.3)")},
	"feedback":       {mode("reduce"), with("feedback(topk(keep=0.1))")},
	"feedback, bf16": {mode("reduce"), with("feedback(bf16)")},
	"dgc":            {mode("reduce"), with("dgc(keep=0.1)"), optimizer("sgd")},
	"powersgd":       {mode("reduce"), with("powersgd(rank=2)")},
	"qsgd":           {mode("reduce"), with("qsgd(bits=4)")},
	"intsum":         {mode("reduce"), with("feedback(intsum)")},
	"receivers":      {mode("reduce"), with("ef21(topk(keep=0.2))")},
	"slices":         {mode("reduce"), with("scatter(feedback(topk(keep=0.3)))")},
	"overlap":        {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }, with("feedback(topk(keep=0.1))")},
	"cycle":          {mode("reduce"), fused(20*time.Microsecond, 600)},
	"norms":          {normal(0), elastic},
	"micro-batches":  {mode("reduce"), micros(3)},
	"average":        {mode("reduce"), ema(0.9, 2)},
	"local steps":    {mode("localsgd(h=3,lr=0.7)"), outer("nesterov(beta=0.9)"), with("feedback(topk(keep=0.2))"), optimizer("adam"), learning(0.01)},
	"mean moments":   {mode("localsgd(h=2,inner=average)")},
	"servers":        {mode("server"), servers(2), optimizer("adam")},
	"server":         {mode("server"), with("feedback(topk(keep=0.1))"), ema(0.9, 2)},
	"down codec":     {mode("server"), servers(2), down("qsgd(bits=4)"), with("ef21(topk(keep=0.2))")},
	"parts":          {mode("server"), servers(2), down("fp16"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
	"scaled servers": {mode("server"), servers(2), with("qsgd(bits=4)"), func(j *train.Job) { j.OnResize = train.ScaleLR }},
	"neighbours":     {mode("dpsgd"), graph("ring"), optimizer("adam")},
	"wide ring":      {mode("dpsgd"), graph("ring"), workers(8)},
	"five in pairs":  {mode("dpsgd"), graph("pairs"), workers(5)},
	"pairs":          {mode("dpsgd(adapt=true)"), graph("pairs"), with("bf16")},
	"push-sum":       {mode("sgp"), graph("one_peer"), optimizer("momentum")},
	"late push-sum":  {mode("sgp(late=2)"), graph("exponential")},
	"differences":    {mode("choco"), graph("ring"), with("qsgd(bits=4)")},
	"sparse":         {mode("choco(gamma=0.2)"), graph("complete"), with("topk(keep=0.2)"), optimizer("adam")},
	"scaled rate":    {mode("reduce"), func(j *train.Job) { j.OnResize = train.ScaleLR }},
}

// A worker that dies leaves a run as if it had left at the step from which the others go
// on: they end with the same bits. It is so for every worker, the one that leads too,
// and wherever in a step it dies.
func TestF1F4WorkerLeavesElastic(t *testing.T) {
	t.Parallel()
	for name, way := range elasticWays {
		if leftOut(name, 3) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := append([]option{elastic}, way...)
			j := unchecked(opts...)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			whole, _ := runOn(t, simulated(0), j, nil)
			steps := map[int]bool{}
			for i := range 6 {
				if !patience.Long && i != 3 {
					continue
				}
				victim := i % 4
				at := time.Duration((0.07 + 0.149*float64(i)) * whole.Final.Seconds * 1e9)
				died, _ := runOn(t, killing(nemesis.Act{Rank: victim, At: at}), job(t, opts...), nil)
				if len(died.Members) != 2 || len(died.Dead) != 1 || died.Final.Step != j.Updates {
					t.Fatalf("worker %d dies at %v: memberships %+v, %v, ends with %+v", victim, at, died.Members, died.Dead, died.Final)
				}
				plan := departures(died)
				left, _ := runOn(t, simulated(0), job(t, append(opts, leaving(plan...))...), nil)
				if died.SHA256 != left.SHA256 {
					t.Errorf("worker %d dies at %v, the others go on from step %d, and end with other bits than if it had left there", victim, at, plan[0].Step)
				}
				steps[plan[0].Step] = true
				if i == 3 {
					loc, _ := runOn(t, &local.Net{}, job(t, append(opts, leaving(plan...))...), nil)
					if loc.SHA256 != left.SHA256 {
						t.Error("local and sim differ in their bits")
					}
				}
			}
			if len(steps) < 3 && patience.Long {
				t.Errorf("all deaths fall on steps %v", steps)
			}
		})
	}
}

// Who stays makes the whole run, and its account says what was void.
func TestElasticReports(t *testing.T) {
	t.Parallel()
	o, _ := runOn(t, killing(nemesis.Act{Rank: 1, At: 5 * time.Millisecond}), job(t, mode("reduce"), elastic), nil)
	if len(o.Reports) != 3 || len(o.Members) != 2 {
		t.Fatalf("%d reports, memberships %+v", len(o.Reports), o.Members)
	}
	m := o.Members[1]
	if m.Epoch != 2 || !slices.Equal(m.Workers, []int{0, 2, 3}) || m.Samples != uint64(m.Step*32) || m.Seconds != 0.005 || m.Left[0].Worker != 1 || m.Left[0].Planned {
		t.Errorf("membership %+v", m)
	}
	for _, r := range o.Reports {
		if r.Rank == 1 || r.Steps != 24 || r.Sent != r.Ledger.Applied || r.Voided != 1 {
			t.Errorf("report %+v", r)
		}
	}
	if o.Final.Samples != 24*32 {
		t.Errorf("%d samples, want those of 24 steps of 32", o.Final.Samples)
	}
}

// Several deaths: one after the other, two in one step, one while the others are about
// to go on without another, all but one.
func TestElasticDeaths(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	opts := []option{mode("reduce"), elastic, with("feedback(topk(keep=0.1))")}
	whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
	share := func(x float64) time.Duration { return time.Duration(x * whole.Final.Seconds * 1e9) }
	for name, deaths := range map[string][]nemesis.Act{
		"one after the other":  {{Rank: 0, At: share(0.2)}, {Rank: 2, At: share(0.6)}},
		"two in one step":      {{Rank: 0, At: share(0.4)}, {Rank: 3, At: share(0.4) + time.Microsecond}},
		"at the same instant":  {{Rank: 2, At: share(0.4)}, {Rank: 1, At: share(0.4)}},
		"all but one at once":  {{Rank: 0, At: share(0.3)}, {Rank: 1, At: share(0.3)}, {Rank: 2, At: share(0.3)}},
		"all but one, in turn": {{Rank: 3, At: share(0.1)}, {Rank: 0, At: share(0.3)}, {Rank: 1, At: share(0.5)}},
		"before the first":     {{Rank: 0, At: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			died, _ := runOn(t, killing(deaths...), job(t, opts...), nil)
			if len(died.Dead) != len(deaths) || died.Final.Step != 24 {
				t.Fatalf("memberships %+v, %v, ends with %+v", died.Members, died.Dead, died.Final)
			}
			left, _ := runOn(t, simulated(0), job(t, append(opts, leaving(departures(died)...))...), nil)
			if died.SHA256 != left.SHA256 {
				t.Errorf("other bits than by plan %v", departures(died))
			}
			again, _ := runOn(t, killing(deaths...), job(t, opts...), nil)
			if died.SHA256 != again.SHA256 || !reflect.DeepEqual(died.Members, again.Members) {
				t.Error("the same deaths end in another run")
			}
		})
	}
}

// Deaths at every instant of a step: between its frames, at its end, in the last step.
func TestElasticEveryInstant(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range map[string][]option{"ranks": {mode("reduce")}, "neighbours": {mode("dpsgd"), graph("ring")}, "servers": {mode("server"), servers(2), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }}} {
		t.Run(name, func(t *testing.T) { everyInstant(t, way) })
	}
}

func everyInstant(t *testing.T, way []option) {
	opts := append(slices.Clone(way), elastic, func(j *train.Job) { j.Updates, j.Workers, j.EvalEvery = 3, 3, 1 })
	whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
	plans := map[string]string{}
	for i := range 120 {
		if !patience.Long && i%4 > 0 {
			continue
		}
		at := time.Duration(float64(i) / 118 * whole.Final.Seconds * 1e9)
		died, s := runOn(t, killing(nemesis.Act{Rank: i % 3, At: at}), job(t, opts...), nil)
		if died.Final.Step != 3 {
			t.Fatalf("worker %d dies at %v: ends with %+v", i%3, at, died.Final)
		}
		if n := len(s.evals); n > 3 {
			t.Errorf("worker %d dies at %v: %d evaluations of 3 updates", i%3, at, n)
		}
		plan := departures(died)
		key := fmt.Sprint(plan)
		if plans[key] == "" {
			left, _ := runOn(t, simulated(0), job(t, append(opts, leaving(plan...))...), nil)
			plans[key] = left.SHA256
		}
		if died.SHA256 != plans[key] {
			t.Errorf("worker %d dies at %v: other bits than by plan %v", i%3, at, plan)
		}
	}
	if len(plans) < 8 && patience.Long {
		t.Errorf("deaths at 120 instants fall on %d plans", len(plans))
	}
}

// A run that is stopped, or was saved on the way, goes on with the members it had.
func TestElasticResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range map[string][]option{
		"raw":         {mode("reduce")},
		"feedback":    {mode("reduce"), with("feedback(topk(keep=0.1))")},
		"overlap":     {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
		"push-sum":    {mode("sgp(late=1)"), graph("one_peer"), optimizer("adam")},
		"differences": {mode("choco"), graph("ring"), with("qsgd(bits=4)")},
		"servers":     {mode("server"), servers(2), with("feedback(topk(keep=0.1))")},
		"down":        {mode("server"), servers(2), down("qsgd(bits=4)")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]option{elastic, func(j *train.Job) { j.CheckpointEvery = 4 }}, way...)
			all, _ := runOn(t, simulated(0), job(t, opts...), nil)
			whole, s := runOn(t, killing(nemesis.Act{Rank: 0, At: seconds(0.3 * all.Final.Seconds)}), job(t, opts...), nil)
			if len(whole.Members) != 2 || len(s.states) != 5 {
				t.Fatalf("memberships %+v, %d checkpoints", whole.Members, len(s.states))
			}
			for version, st := range s.states {
				if version <= whole.Members[1].Step {
					continue
				}
				start := time.Duration(st.Ints["nanoseconds"])
				again, _ := runOn(t, simulated(start), job(t, opts...), st)
				evens(t, again)
				if again.SHA256 != whole.SHA256 || !reflect.DeepEqual(again.Members, whole.Members) {
					t.Errorf("resumed at update %d: other bits, or memberships %+v", version, again.Members)
				}
			}
		})
	}
}

// Two workers that cannot reach each other any more, both ways or one, and live: one of
// them is left out, and the others go on.
func TestF7ElasticCutLink(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, faults := range map[string]string{
		"both ways":      "partition([w0],from=[w1],at=4ms)",
		"one way":        "partition([w2],from=[w1],at=4ms,one_way=true)",
		"from all":       "partition([w3],from=[w0,w1,w2],at=4ms)",
		"killed and cut": "kill(w0,at=6ms)+partition([w1],from=[w2],at=4ms)",
	} {
		t.Run(name, func(t *testing.T) {
			opts := []option{mode("reduce"), topology("direct"), elastic}
			o, _ := runOn(t, faulty(t, faults), job(t, opts...), nil)
			if len(o.Members) < 2 || o.Final.Step != 24 {
				t.Fatalf("memberships %+v, ends with %+v", o.Members, o.Final)
			}
			left, _ := runOn(t, simulated(0), job(t, append(opts, leaving(departures(o)...))...), nil)
			if o.SHA256 != left.SHA256 {
				t.Errorf("other bits than by plan %v", departures(o))
			}
		})
	}
}

// Below min_workers the run ends, and says so.
func TestMinWorkers(t *testing.T) {
	t.Parallel()
	j := job(t, mode("reduce"), elastic, func(j *train.Job) { j.MinWorkers = 3 })
	programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
	if err != nil {
		t.Fatal(err)
	}
	err = killing(nemesis.Act{Rank: 0, At: time.Millisecond}, nemesis.Act{Rank: 1, At: 2 * time.Millisecond}).Run(context.Background(), programs)
	if err == nil || !strings.Contains(err.Error(), "min_workers=3") {
		t.Errorf("two of four workers die, with min_workers=3: %v", err)
	}
	j = job(t, mode("reduce"), elastic, leaving(train.Departure{Worker: 1, Step: 3}), func(j *train.Job) { j.MinWorkers = 4 })
	if programs, err = j.Programs(&train.Observer{Job: j, Sink: &sink{}}); err != nil {
		t.Fatal(err)
	}
	if err = (&local.Net{}).Run(context.Background(), programs); err == nil || !strings.Contains(err.Error(), "min_workers=4") {
		t.Errorf("one of four workers leaves, with min_workers=4: %v", err)
	}
}

// What cannot go on without a worker is refused before the run.
func TestElasticRefusals(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"set on_resize=keep_global":               {mode("server"), policy("asp"), func(j *train.Job) { j.OnResize = train.ScaleLR }},
		"policy kasync(k=2) holds pushes":         {mode("server"), policy("kasync"), with("ef21(topk(keep=0.2))")},
		"take order_log out of observe":           {mode("server"), func(j *train.Job) { j.LogOrder = true }},
		"corrector=none":                          {mode("server"), corrector("dcasgd")},
		"use overlap=buckets":                     {mode("reduce"), prior(600)},
		"batch_schedule=fixed":                    {mode("reduce"), growing("growth")},
		"bn_group=1":                              {normal(0), group(2)},
		"take noise_scale out of observe":         {mode("reduce"), func(j *train.Job) { j.NoiseScale = true }},
		"min_workers is 5":                        {mode("reduce"), func(j *train.Job) { j.MinWorkers = 5 }},
		"worker 4 before step 1":                  {mode("reduce"), leaving(train.Departure{Worker: 4, Step: 1})},
		"worker 1 before step 2: want workers 0 ": {mode("reduce"), leaving(train.Departure{Worker: 0, Step: 3}, train.Departure{Worker: 1, Step: 2})},
	} {
		j := unchecked(append(opts, elastic)...)
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	j := unchecked(mode("reduce"), leaving(train.Departure{Worker: 1, Step: 1}))
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), "elastic=on") {
		t.Errorf("a worker leaves a run that is not elastic: %v", err)
	}
}
