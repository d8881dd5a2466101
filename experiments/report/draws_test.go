package report

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// racing are runs of two codecs, whose first evaluation reaches the target after so many
// seconds of the clock, by seed.
func racing(t *testing.T, at map[string][]float64) *Report {
	t.Helper()
	var runs []*store.Run
	for _, codec := range []string{"raw", "bf16"} {
		for i, s := range at[codec] {
			r := trial(codec, uint64(i)+1, store.Done, 0.9)
			r.Result.VirtualSeconds, r.Result.ParamsSHA256 = 2*s, codec
			runs = append(runs, r)
		}
	}
	r := mustNew(t, runs)
	for _, c := range r.Tasks[0].Configs {
		for i, trial := range c.Trials {
			s := at[c.Label][i]
			trial.Curve.Evals = []record.Eval{{Step: 1, Seconds: 0.99 * s}, {Step: 2, Seconds: s, Values: record.Values{"accuracy": 0.9}}}
		}
		c.ToSeconds = stats.Reaching(at[c.Label])
	}
	r.Tasks[0].compare()
	return r
}

// Over seeds and draws of the same clusters it is known how probably each is first; times,
// intervals and figures are then those of the draws, and the answer begins with that.
func TestFirstWithProbability(t *testing.T) {
	t.Parallel()
	r := racing(t, map[string][]float64{"raw": {1, 1.01, 1.02, 1.01}, "bf16": {0.5, 0.51, 0.5, 0.52}})
	lie := func(of map[string][]float64) error {
		return r.Lie(16, func(run *store.Run) (*Draws, error) {
			var seconds []float64
			for _, f := range of[run.Config.Codec] {
				seconds = append(seconds, f*run.Result.VirtualSeconds)
			}
			return &Draws{seconds, "transport test"}, nil
		})
	}
	// In three draws of four bf16 takes four times as long on a real cluster, and raw twice
	// as long: 2.0 each, or nearly. In the last one bf16 is as fast as on the clock.
	if err := lie(map[string][]float64{"raw": {2, 2, 2, 2}, "bf16": {6, 6, 6, 1}}); err != nil {
		t.Fatal(err)
	}
	task := r.Tasks[0]
	answer := strings.Join(task.Answer(), " ")
	for _, want := range []string{"raw is first with probability 0.75; bf16 in the rest, over 4 seeds and 4 draws of transport test.", "Soonest at 10 %, in the median of 4 seeds: raw, in 2.0s; next is bf16, in 3.0s"} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %q in %s", want, answer)
		}
	}
	if strings.Contains(answer, "virtual clock") {
		t.Error("times of draws are called those of the clock:", answer)
	}
	for _, c := range task.Configs {
		if m := c.ToSeconds.Median; !(c.Low <= m && m <= c.High) {
			t.Errorf("%s: %v is not in %v to %v", c.Label, m, c.Low, c.High)
		}
		if !c.Front {
			t.Errorf("%s is not on the front, where draws do not tell which is sooner", c.Label)
		}
	}
	found := false
	for _, s := range task.Sections {
		for _, p := range s.Panels {
			for _, x := range p.Series {
				if strings.HasSuffix(p.Title, "accuracy and time") && x.Name == "bf16" {
					found = math.Abs(x.X[0]-task.Configs[1].ToSeconds.Median) < 1e-9 || found
				}
			}
			if strings.Contains(p.X.Label, "virtual time to") {
				t.Errorf("axis %q", p.X.Label)
			}
		}
	}
	if !found {
		t.Error("the figure has another time than the table")
	}
	if page := html(t, r); !strings.Contains(page, ">90 %</th>") || !strings.Contains(page, "predicted time") {
		t.Error("the page has no interval")
	}
}

// Where the one that is first more often is not the one that is sooner in the median, the
// answer says why; where one is both, it says nothing of that.
func TestMoreOftenIsNotSooner(t *testing.T) {
	t.Parallel()
	r := racing(t, map[string][]float64{"raw": {2, 2, 0.5, 0.5, 0.6}, "bf16": {1, 1, 0.8, 0.8, 0.55}})
	task := r.Tasks[0]
	answer := task.Answer()
	const why = "bf16 is first more often and raw is sooner in the median: first places are counted seed by seed, a median is of each one's seeds by themselves, in steps of an evaluation (8.0ms)."
	if len(answer) < 2 || !strings.HasPrefix(answer[0], "bf16 is first with probability 0.60; raw in the rest") || !strings.Contains(answer[0], "raw, in 600ms") || !slices.Contains(answer, why) {
		t.Errorf("%q", answer)
	}
	if page := html(t, r); !strings.Contains(page, "bf16 is first more often and raw is sooner in the median") {
		t.Error("the page does not say why")
	}
	if err := r.Lie(16, func(run *store.Run) (*Draws, error) {
		return &Draws{[]float64{run.Result.VirtualSeconds, run.Result.VirtualSeconds}, "transport test"}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if s := differ(task); !strings.Contains(s, "seed by seed on the same draws") {
		t.Error(s)
	}
	for _, at := range []map[string][]float64{
		{"raw": {1, 1.1, 1, 0.4}, "bf16": {0.5, 0.51, 0.5, 0.52}}, // one is both
		{"raw": {2, 1}, "bf16": {1.5, 1.5}},                       // both are the same in both
		{"raw": {1, 3}, "bf16": {2, 1.5}},                         // as often, and sooner
		{"raw": {1}, "bf16": {2}},                                 // nothing is probable
	} {
		if s := differ(racing(t, at).Tasks[0]); s != "" {
			t.Errorf("%v: %s", at, s)
		}
	}
}

// What cannot be drawn for one configuration is drawn for none, and said, with the stack
// that the clock is of; seeds alone tell a probability.
func TestWithoutDraws(t *testing.T) {
	t.Parallel()
	r := racing(t, map[string][]float64{"raw": {1, 1.1, 1, 0.4}, "bf16": {0.5, 0.51, 0.5, 0.52}})
	if err := r.Lie(16, func(run *store.Run) (*Draws, error) {
		if run.Config.Codec == "bf16" {
			return nil, nil
		}
		return &Draws{[]float64{1, 2}, "transport test"}, nil
	}); err != nil {
		t.Fatal(err)
	}
	task := r.Tasks[0]
	answer := strings.Join(task.Answer(), " ")
	for _, want := range []string{"bf16 is first with probability 0.75; raw in the rest, over 4 seeds, with transport=unknown as it is in the middle", "cannot be drawn for bf16"} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %q in %s", want, answer)
		}
	}
	if task.Lying() {
		t.Error("there is an interval for some configurations")
	}
}

// The answer as data has the names that programs read, and what the sentences say.
func TestAnswerAsData(t *testing.T) {
	t.Parallel()
	r := racing(t, map[string][]float64{"raw": {1, 1.01, 1.02, 1.01}, "bf16": {0.5, 0.51, 0.5, 0.52}})
	task := r.Tasks[0]
	b, err := json.Marshal(task.Summary())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	names := func(x any) string { return strings.Join(slices.Sorted(maps.Keys(x.(map[string]any))), " ") }
	if s := names(got); s != "answers baseline crossings facet seeds target" {
		t.Errorf("it has %s", s)
	}
	answers := got["answers"].(map[string]any)
	if s := names(answers); s != "fewest_bytes most_accurate soonest" {
		t.Errorf("answers are %s", s)
	}
	soonest := answers["soonest"].(map[string]any)
	if s := names(soonest); s != "configuration high low probability ratio runner_up ties value" {
		t.Errorf("a winner has %s", s)
	}
	if soonest["configuration"] != "bf16" || soonest["probability"] != 1.0 || soonest["runner_up"] != "raw" || math.Abs(soonest["value"].(float64)-0.505) > 1e-9 ||
		soonest["low"] != 0.5 || soonest["high"] != 0.52 || math.Abs(soonest["ratio"].(float64)-2) > 0.01 {
		t.Errorf("soonest is %v", soonest)
	}
	if got["seeds"] != 4.0 || got["target"] != 0.1 || got["baseline"] != nil {
		t.Error(string(b))
	}
	accurate := answers["most_accurate"].(map[string]any)
	if ties := accurate["ties"].([]any); len(ties) != 1 { // all copies of one run
		t.Errorf("most accurate is %v", accurate)
	}
	one := racing(t, map[string][]float64{"raw": {1}, "bf16": {0.5}}).Tasks[0].Summary()
	if b, err := json.Marshal(one); err != nil || !strings.Contains(string(b), `"probability":null`) {
		t.Errorf("%s, %v", b, err)
	}
}
