package report

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// sample is runs of two codecs, three numbers of workers and two seeds.
var sample []*store.Run

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gradlab-report-")
	if err == nil {
		sample, err = makeSample(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := patience.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

func makeSample(dir string) ([]*store.Run, error) {
	recipe, err := config.ParseRecipe("sample", "sample.yaml", []byte(
		"data: digits\nmodel: mlp(hidden=[16])\nsteps: 12\nbatch: 8\nnet: sim\neval_every: 4\ntarget: 0.1\nmode: server\npolicy: asp\n"+
			"codec: [raw, topk(keep=0.1)]\nworkers: [1, 2, 4]\nseed: [1, 2]\n"))
	if err != nil {
		return nil, err
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		return nil, err
	}
	if _, err := experiments.ExecuteAll(context.Background(), runs, experiments.Options{Recipe: "sample", Out: dir}); err != nil {
		return nil, err
	}
	return store.Find(dir)
}

func mustNew(t testing.TB, runs []*store.Run) *Report {
	t.Helper()
	r, err := New(runs, record.Goal{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func html(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := mustNew(t, sample)
	if len(r.Tasks) != 1 || len(r.Tasks[0].Configs) != 6 || len(r.Notes) != 0 {
		t.Fatalf("%d tasks, notes %v", len(r.Tasks), r.Notes)
	}
	task := r.Tasks[0]
	if got := strings.Join(task.Varying, " "); got != "codec workers" {
		t.Errorf("configurations differ in %s", got)
	}
	var names []string
	for _, s := range task.Sections {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "pareto over-workers curves staleness traffic time scaling" {
		t.Errorf("sections %s", got)
	}
	panels := map[string][]string{}
	for _, s := range task.Sections {
		for _, f := range s.Panels {
			for _, x := range f.Series {
				panels[f.Title] = append(panels[f.Title], x.Name)
			}
		}
	}
	for title, want := range map[string]string{
		"time of a step":                 "compute encode wire wait",
		"by link":                        "workers to servers servers to workers",
		"of the busiest link, both ways": "gradients parameters",
	} {
		if got := strings.Join(panels[title], " "); got != want {
			t.Errorf("panel %q shows %q, want %q", title, got, want)
		}
	}
	page := html(t, r)
	for _, run := range sample {
		for _, want := range []string{run.ID, run.Folder + "/config.yaml"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
	}
	for _, s := range task.Answer() {
		if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("answer: %s", s)
		}
	}
	if page := strings.ReplaceAll(page, scriptText, ""); strings.Contains(page, "NaN") || strings.Contains(page, "ZgotmplZ") {
		t.Error("the page has a NaN, or something the template refused")
	}
}

// The page fetches nothing: it has no address of a resource, and a policy that
// would not let it.
func TestPageIsSelfContained(t *testing.T) {
	t.Parallel()
	page := html(t, mustNew(t, sample))
	within := strings.ReplaceAll(page, `<a href="#`, "")
	if m := regexp.MustCompile(`(?i)\b(src|href|action|data|poster)\s*=|url\(|@import|<(link|iframe|object|embed|base)\b`).FindString(within); m != "" {
		t.Errorf("the page refers to something: %q", m)
	}
	if !strings.Contains(page, `content="default-src &#39;none&#39;;`) {
		t.Error("no policy")
	}
	if html(t, mustNew(t, sample)) != page {
		t.Error("the same runs give another page")
	}
}

// Names and settings of runs come from files that others may have written.
func TestHostileRunsStayText(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert(1)</script><img src=x onerror=alert(2)>"'`
	run := *sample[0]
	run.Recipe, run.Name, run.Error, run.Foreign = evil, evil, evil, map[string]string{evil: evil}
	run.Folder = sample[0].Folder
	run.Config.Model, run.Config.Codec = evil, evil
	run.Env = map[string]any{"cpu": evil, "vcs.revision": evil}
	failed := run
	failed.State, failed.Result = store.Failed, nil
	page := html(t, mustNew(t, []*store.Run{&run, sample[1], &failed}))
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("a run's text became an element")
	}
}

func TestUnfinishedRunsAreListed(t *testing.T) {
	t.Parallel()
	running, failed := *sample[0], *sample[1]
	running.State, running.Result = store.Running, nil
	failed.State, failed.Result, failed.Error = store.Failed, nil, "out of luck"
	r := mustNew(t, []*store.Run{&running, &failed})
	if len(r.Tasks) != 0 || len(r.Notes) != 2 {
		t.Errorf("%d tasks, notes %v", len(r.Tasks), r.Notes)
	}
	if page := html(t, r); !strings.Contains(page, "out of luck") {
		t.Error("the page does not say why a run failed")
	}
	if _, err := New(nil, record.Goal{}); err == nil {
		t.Error("a report on nothing")
	}
}

// scoring sets the last and the best value of a metric.
func scoring(r *store.Run, m sgd.Metric, x float64) {
	r.Result.Values, r.Result.Best = maps.Clone(r.Result.Values), maps.Clone(r.Result.Best)
	r.Result.Values[m.Name], r.Result.Best[m.Name] = x, record.Best{Value: x, Step: 1}
}

// trial is a copy of a run of the sample with another outcome.
func trial(codec string, seed uint64, state string, accuracy float64) *store.Run {
	run, res := *sample[0], *sample[0].Result
	run.Config.Codec, run.Config.Seed, run.Config.Workers = codec, seed, 4
	run.Name, run.ID, run.State = fmt.Sprintf("codec=%s,seed=%d", codec, seed), run.Config.Hash(), state
	res.TargetReached = accuracy >= run.Config.Target.Value
	run.Result = &res
	scoring(&run, sgd.Accuracy, accuracy)
	if state == store.Failed {
		run.Result, run.Error, run.Folder = nil, "out of luck", "nowhere"
	}
	return &run
}

// Only runs that are done are in the figures: one that was stopped, or goes on
// after a stop, has a result that is not its last. Those that failed never reach
// a target.
func TestOnlyRunsThatAreDoneCount(t *testing.T) {
	t.Parallel()
	r := mustNew(t, []*store.Run{
		trial("raw", 1, store.Done, 0.9), trial("raw", 2, store.Done, 0.92),
		trial("bf16", 1, store.Done, 0.8), trial("bf16", 2, store.Stopped, 0.2), trial("bf16", 3, store.Running, 0.1),
		trial("sign", 1, store.Done, 0.7), trial("sign", 2, store.Failed, 0), trial("sign", 3, store.Failed, 0),
		trial("onebit", 1, store.Failed, 0), trial("natural", 1, store.Stopped, 0.99),
	})
	got := map[string]string{}
	for _, c := range r.Tasks[0].Configs {
		got[c.Label] = fmt.Sprintf("%s seeds, %.2f, target: %s", c.Seeds(), c.Score.Mean, reached(c.ToSeconds, func(float64) string { return "reached" }))
	}
	for label, want := range map[string]string{
		"raw": "2 seeds, 0.91, target: reached", "bf16": "1 seeds, 0.80, target: reached", "sign": "1 of 3 seeds, 0.70, target: 1 of 3 seeds",
	} {
		if got[label] != want {
			t.Errorf("%s: %q, want %q", label, got[label], want)
		}
	}
	if len(got) != 3 {
		t.Errorf("configurations %v", got)
	}
	page := html(t, r)
	for _, want := range []string{"codec=bf16,seed=2 was stopped before its end and is not in the figures", "codec=onebit,seed=1 failed: out of luck", "is still running and not in the figures"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not tell that %s", want)
		}
	}
}

// Nothing is said of configurations that cannot be told apart by seeds.
func TestAnswerKnowsWhatItCannotTell(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	for i, noise := range []float64{0, 0.01, 0.03} {
		seed := uint64(i) + 1
		runs = append(runs, trial("raw", seed, store.Done, 0.9+noise), trial("bf16", seed, store.Done, 0.5+1.1*noise))
	}
	last := func(more ...*store.Run) string {
		return strings.Join(mustNew(t, append(slices.Clone(runs), more...)).Tasks[0].Answer(), " ")
	}
	if s := last(); !strings.Contains(s, "All others are behind it by more than the seeds explain") {
		t.Error(s)
	}
	if s := last(trial("sign", 1, store.Done, 0.4)); strings.Contains(s, "All others") || !strings.Contains(s, "bf16 is behind it by more than the seeds explain; of sign there are too few seeds.") {
		t.Error(s)
	}
	// Of two that are level the sooner one is named, and the other beside it.
	var level []*store.Run
	for seed, accuracy := range []float64{0.9, 0.91, 0.93} {
		slow, fast := trial("raw", uint64(seed), store.Done, accuracy), trial("bf16", uint64(seed), store.Done, accuracy)
		fast.Result.VirtualSeconds /= 2
		fast.Result.ParamsSHA256 += "another"
		level = append(level, slow, fast)
	}
	if s := strings.Join(mustNew(t, level).Tasks[0].Answer(), " "); !strings.Contains(s, "Most accurate, at the best evaluation: bf16") || !strings.Contains(s, "The seeds do not tell it from any other") {
		t.Error(s)
	}
	// On the seeds that both have, eden is ahead of raw, whose mean a fourth seed lifts.
	ahead := []*store.Run{trial("raw", 4, store.Done, 1)}
	for i, noise := range []float64{0, 0.01, 0.03} {
		ahead = append(ahead, trial("eden", uint64(i)+1, store.Done, 0.901+1.01*noise))
	}
	if s := last(ahead...); !strings.Contains(s, "Most accurate, at the best evaluation: raw") || !strings.Contains(s, "do not tell it from eden") {
		t.Error(s)
	}
}

// Runs that cannot be compared are not compared.
func TestTasksAreApart(t *testing.T) {
	t.Parallel()
	other := *sample[0]
	other.Config.Net = "local"
	r := mustNew(t, append(slices.Clone(sample), &other))
	if len(r.Tasks) != 2 || r.Tasks[0].Slug() == r.Tasks[1].Slug() || len(r.Tasks[1].Configs) != 1 {
		t.Fatalf("%d tasks", len(r.Tasks))
	}
	files, err := r.Figures(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range files {
		names[filepath.Base(f)] = true
		if info, err := os.Stat(f); err != nil || info.Size() == 0 {
			t.Error(f, err)
		}
	}
	if !names["net-sim-pareto.pdf"] || !names["net-local-curves.svg"] || len(names) != len(files) {
		t.Errorf("files %v", files)
	}
}

// Runs without weights are compared in time and bytes.
func TestWeightlessRuns(t *testing.T) {
	t.Parallel()
	recipe, err := config.ParseRecipe("sizes", "sizes.yaml", []byte(
		"data: synthetic\nmodel: logistic\ntiming: resnet20\nweightless: true\nsteps: 2\nbatch: 8\nworkers: 2\nnet: sim\nmode: reduce\ncodec: [raw, bf16]\n"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := experiments.ExecuteAll(context.Background(), runs, experiments.Options{Recipe: "sizes", Out: dir}); err != nil {
		t.Fatal(err)
	}
	found, err := store.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	task := mustNew(t, found).Tasks[0]
	if got := strings.Join(task.Answer(), " "); !strings.HasPrefix(got, "Fastest: bf16") || strings.Contains(got, "ccura") {
		t.Error(got)
	}
	if got := task.What(); got != "resnet20 without weights" {
		t.Error(got)
	}
	for _, s := range task.Sections {
		if s.Name == "curves" || s.Name == "pareto" && len(s.Panels) != 1 {
			t.Errorf("section %s with %d panels", s.Name, len(s.Panels))
		}
	}
	if page := html(t, mustNew(t, found)); strings.Contains(page, "behind the best") {
		t.Error("the page compares accuracies")
	}
	other := *found[0]
	other.Config.Timing = "vgg16"
	if tasks := mustNew(t, append(found, &other)).Tasks; len(tasks) != 2 || tasks[1].What() != "vgg16 without weights" {
		t.Errorf("steps of two networks are %d tasks", len(tasks))
	}
}

// The front is what no other dominates, and never empty: of configurations of one seed by
// what was measured, of several where these tell.
func TestParetoFront(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.Float64Range(1, 4)
		task := &Task{}
		seeds := rapid.IntRange(1, 3).Draw(t, "seeds")
		for i := range rapid.IntRange(1, 8).Draw(t, "n") {
			c := &Config{Group: &store.Group{Label: fmt.Sprint(i)}}
			var score, seconds, bytes []float64
			for seed := range seeds {
				r := trial("raw", uint64(seed), store.Done, math.Round(few.Draw(t, "accuracy"))/10)
				r.Result.VirtualSeconds, r.Result.BytesUp, r.Result.BytesDown = math.Round(few.Draw(t, "seconds")), uint64(few.Draw(t, "bytes")), 0
				score, seconds, bytes = append(score, r.Result.Best["accuracy"].Value), append(seconds, r.Seconds()), append(bytes, float64(r.Crossed(r.Result.BytesUp, 0)))
				c.Trials = append(c.Trials, &Trial{Run: r})
			}
			c.Best, c.Seconds, c.Bytes = stats.Summarize(score), stats.Summarize(seconds), stats.Summarize(bytes)
			task.Configs = append(task.Configs, c)
		}
		compete(task)
		front := task.front()
		if len(front) == 0 {
			t.Fatal("nothing is on the front")
		}
		circle := true
		for _, c := range task.Configs {
			behind := slices.ContainsFunc(task.Configs, func(o *Config) bool { return dominates(task, o, c) })
			circle = circle && behind
			if seeds == 1 && behind == c.Front { // what was measured makes no circles
				t.Fatalf("configuration %s: front %v, dominated %v", c.Label, c.Front, behind)
			}
			if seeds == 1 && !c.Front && !slices.ContainsFunc(front, func(f *Config) bool { return dominates(task, f, c) }) {
				t.Fatalf("configuration %s is off the front, and none on it dominates it", c.Label)
			}
		}
		if circle && len(front) != len(task.Configs) {
			t.Fatal("of a circle some are on the front and others not")
		}
	})
}

func TestScalingKnowsItsLadders(t *testing.T) {
	t.Parallel()
	task := mustNew(t, sample).Tasks[0]
	ls := laddersOf(task)
	slices.SortFunc(ls, func(a, b *ladder) int { return strings.Compare(a.label, b.label) })
	if len(ls) != 2 || ls[0].label != "raw" || ls[1].label != "topk(keep=0.1)" {
		t.Fatalf("%d ladders", len(ls))
	}
	for _, l := range ls {
		var workers []int
		for _, p := range l.points() {
			workers = append(workers, p.N)
			if !(p.Throughput > 0) {
				t.Errorf("throughput %g", p.Throughput)
			}
		}
		if !slices.Equal(workers, []int{1, 2, 4}) {
			t.Errorf("workers %v", workers)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	seconds := func(x float64) string { return fmt.Sprint(x) }
	inf := math.Inf(1)
	for _, c := range []struct{ got, want string }{
		{reached(stats.Reaching([]float64{1, 3, inf}), seconds), "3 (2 of 3)"},
		{reached(stats.Reaching([]float64{1, inf, inf}), seconds), "1 of 3 seeds"},
		{reached(stats.Reaching([]float64{inf}), seconds), "never"},
		{reached(stats.Reach{}, seconds), ""},
		{words(stats.Summarize([]float64{1, 2}), seconds), "1.5 (1 to 2)"},
		{words(stats.Summarize([]float64{2}), seconds), "2"},
		{percent(0.95), "95 %"}, {percent(0.98333), "98.33 %"},
		{sortable(inf), "Infinity"}, {sortable(0.5), "0.5"},
		{chance(0.0001), "< 0.001"}, {chance(math.NaN()), ""},
		{(&Task{Target: record.Goal{Metric: sgd.Accuracy}}).Points(Behind{Standing: stats.Standing{N: 3, Mean: -0.01, Low: -0.012, High: 0}}), "−1.00 (−1.20 to 0)"},
		{(&Task{Target: record.Goal{Metric: sgd.Loss}}).Points(Behind{Standing: stats.Standing{N: 3, Mean: -0.5, Low: -0.75, High: 0.25}}), "+0.5 (−0.25 to +0.75)"},
		{(&Task{Target: record.Goal{Metric: sgd.Accuracy}}).Points(Behind{Standing: stats.Standing{N: 1, Mean: -0.01, Low: math.NaN(), High: math.NaN()}}), "−1.00"},
		{list([]string{"a"}), "a"}, {list([]string{"a", "b", "c"}), "a, b and c"}, {list(strings.Fields("a b c d e f")), "a, b, c, d and 2 more"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// The page knows every colour of its figures, in light, dark and print.
func TestEveryColourIsDefined(t *testing.T) {
	t.Parallel()
	for name := range figure.Colours() {
		if n := strings.Count(styleText, "--fig-"+name+":"); n != 3 {
			t.Errorf("colour %s is defined %d times", name, n)
		}
	}
}
