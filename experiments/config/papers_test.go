package config

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd/train"
)

// papers are the recipes that are made after a publication.
func papers(t *testing.T) (out []*Recipe) {
	t.Helper()
	for _, name := range RecipeNames() {
		r, err := LoadRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.Paper != nil {
			out = append(out, r)
		}
	}
	for _, want := range []string{"he2015", "goyal2017", "you2017", "akiba2017", "smith2017", "cho2017", "codreanu2017", "jia2018", "ying2018", "mikami2018", "yamazaki2019", "mlperf-lars", "nado2021", "torchvision", "airbench94"} {
		if !slices.ContainsFunc(out, func(r *Recipe) bool { return r.Name == want }) {
			t.Errorf("there is no recipe %s", want)
		}
	}
	return out
}

// free are keys of a recipe that say where and how well it is watched, not what is
// trained, so that no paper is asked for them.
var free = []string{"net", "workers", "eval_every", "checkpoint_every", "seed"}

// saidKeys are the keys that a recipe says something of, in variants too.
func saidKeys(r *Recipe) map[string]bool {
	out := map[string]bool{}
	for _, layer := range append([][]assignment{r.keys}, r.runs...) {
		for _, a := range layer {
			out[a.key] = true
		}
	}
	return out
}

// Every setting says where it is from, in forms as in the recipe, and no source is
// of a setting that there is not. What one may expect, and how long it took, has a
// source too.
func TestEverySettingHasItsSource(t *testing.T) {
	t.Parallel()
	for _, r := range papers(t) {
		if r.Paper.Cite == "" || len(r.Paper.Expect) == 0 || len(r.Paper.Row) == 0 {
			t.Errorf("%s: cite, expect and row must be given", r.Name)
		}
		for _, e := range r.Paper.Expect {
			if e.Of == "" || e.Source == "" || e.Value <= 0 || e.Run != "" && !slices.Contains(r.names, e.Run) {
				t.Errorf("%s: %+v", r.Name, e)
			}
		}
		for _, row := range r.Paper.Row {
			if row.Devices == "" || row.Source == "" {
				t.Errorf("%s: %+v", r.Name, row)
			}
		}
		said := saidKeys(r)
		for key := range said {
			if k, is := findKey(key); is && k.Effect() == Environment || slices.Contains(free, key) {
				continue
			}
			if r.Paper.Sources[key] == "" {
				t.Errorf("%s: where is %s from?", r.Name, key)
			}
		}
		for key := range r.Paper.Sources {
			if !said[key] {
				t.Errorf("%s: a source of %s, of which it says nothing", r.Name, key)
			}
		}
		if got := r.Forms(); !slices.Equal(got, []string{FormProxy, FormTiming}) {
			t.Errorf("%s has forms %v", r.Name, got)
			continue
		}
		form := r.forms[FormProxy]
		for key := range saidKeys(form) {
			if k, is := findKey(key); is && k.Effect() == Environment || slices.Contains(free, key) {
				continue
			}
			if form.Paper.of().Sources[key] == "" {
				t.Errorf("%s, proxy: how does %s follow from the paper's?", r.Name, key)
			}
		}
	}
}

// peak is where in a run, from 0 to 1, its rate is first the highest, and the rates
// behind that over the highest.
func peak(t *testing.T, c Config, samples int) (at float64, after func(f float64) float64) {
	t.Helper()
	batch := c.Workers * c.Batch
	perEpoch := float64(samples) / float64(batch)
	steps := c.Steps
	if steps == 0 {
		steps = int(c.Epochs*perEpoch + 0.5)
	}
	run := lrschedule.Run{Batch: batch, StepsPerEpoch: perEpoch, Epochs: float64(steps) / perEpoch, Steps: steps}
	f, err := lrschedule.Specs.MustParse(c.Schedule).New(run)
	if err != nil {
		t.Fatal(err)
	}
	rate := func(n int) float64 { return f(lrschedule.Progress{Step: n, Epoch: float64(n) / perEpoch}) }
	best, where := 0.0, 0
	for n := range steps {
		if x := rate(n); x > best*(1+1e-9) {
			best, where = x, n
		}
	}
	return float64(where) / float64(steps), func(f float64) float64 { return rate(int(f*float64(steps))) / best }
}

// The small task of a recipe is the large one in small: as large a share of the data in
// an update, and the same rates in the same parts of the run.
func TestProxiesAreInProportion(t *testing.T) {
	t.Parallel()
	const imageNet, cifar = 1_281_167, 50_000
	for _, r := range papers(t) {
		if r.Name == "airbench94" { // is small already
			continue
		}
		form, err := r.Form(FormProxy)
		if err != nil {
			t.Fatal(err)
		}
		small := runsOf(t, form, false)
		large := runsOf(t, r, false)
		if len(small) != len(large) {
			t.Errorf("%s: %d runs, its proxy %d", r.Name, len(large), len(small))
			continue
		}
		for i, big := range large {
			little := small[i]
			if share := float64(little.Global) / cifar / (float64(big.Global) / imageNet); math.Abs(share-1) > 0.02 {
				t.Errorf("%s %s: an update has %.3f times the share of the data", r.Name, big.Name, share)
			}
			from, rates := peak(t, big.Config, imageNet)
			at, scaled := peak(t, little.Config, cifar)
			if math.Abs(from-at) > 0.012 {
				t.Errorf("%s %s: its rate is the highest at %.3f of the run, of the small one at %.3f", r.Name, big.Name, from, at)
			}
			off := 0
			for k := range 100 {
				if f := math.Max(from, at) + 0.02 + float64(k)/100; f < 0.99 && math.Abs(rates(f)-scaled(f)) > 0.03 {
					off++
				}
			}
			if off > 3 { // stairs may be an update apart
				t.Errorf("%s %s: at %d %% of the run rates over the highest differ", r.Name, big.Name, off)
			}
		}
	}
}

// A small task says itself all that a variant of its recipe says: what a variant says is above
// what a form says of all, so what is left out there would be ImageNet's.
func TestProxiesSayWhatVariantsSay(t *testing.T) {
	t.Parallel()
	keys := func(layer []assignment) (out []string) {
		for _, a := range layer {
			out = append(out, a.key)
		}
		return out
	}
	for _, r := range papers(t) {
		f := r.forms[FormProxy]
		for i, name := range r.names {
			var says []string
			if j := slices.Index(f.names, name); j >= 0 {
				says = keys(f.runs[j])
			}
			for _, key := range keys(r.runs[i]) {
				if !slices.Contains(says, key) {
					t.Errorf("%s, variant %s: the small task says nothing of %s", r.Name, name, key)
				}
			}
		}
	}
}

// Every recipe can be run: for real on as many workers as there are, and as a small
// task. Its updates have the paper's samples wherever they are made.
func TestPapersBuild(t *testing.T) {
	t.Parallel()
	for _, r := range papers(t) {
		proxy, err := r.Form(FormProxy)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			of   *Recipe
			over []string
		}{{r, []string{"workers=2", "net=grpc"}}, {proxy, nil}} {
			runs := runsOf(t, c.of, false, append(c.over, "data=synthetic(dim=3072,side=32,n=1281167,test=16)")...)
			if c.of == r { // variants differ in rates and sizes
				runs = runs[:1]
			}
			for _, run := range runs {
				j, err := run.Build(Places{}, nil)
				if err != nil {
					t.Errorf("%s %s %v: %v", c.of.Name, run.Name, c.over, err)
					continue
				}
				if j.Samples() != run.Global || run.Global == 0 {
					t.Errorf("%s %s %v: an update of %d samples, want %d", c.of.Name, run.Name, c.over, j.Samples(), run.Global)
				}
				if (j.Batch+max(1, j.Accumulate)-1)/max(1, j.Accumulate) > run.Micro {
					t.Errorf("%s %s %v: %d samples in %d micro-batches, want %d in one at most", c.of.Name, run.Name, c.over, j.Batch, j.Accumulate, run.Micro)
				}
				if !train.Modes.MustParse(run.Config.Mode).Traits(j).Steady {
					t.Errorf("%s: its updates are not alike, so that a few do not tell how long all take", c.of.Name)
				}
				for _, idle := range mustResolve(t, run.Config).Idle(j) {
					if !strings.Contains(idle, "augment") {
						t.Errorf("%s %s: %s", c.of.Name, run.Name, idle)
					}
				}
			}
		}
	}
}

// The page's table of what to expect has every accuracy that was read at its source, and the
// batch of its recipe, and nothing else.
func TestThePageSaysWhatPapersReached(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/large-batch.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "### What to expect")
	part, _, _ = strings.Cut(part, "\n###")
	type row struct{ batch, accuracy float64 }
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	said := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([a-z0-9-]+)(?: `run=([a-z]+)`)? \\| ([0-9,]*[0-9])[^|]* \\| ([0-9.]+)").FindAllStringSubmatch(part, -1) {
		said[strings.TrimSpace(m[1]+" "+m[2])] = row{number(m[3]), number(m[4])}
	}
	for _, r := range papers(t) {
		runs := runsOf(t, r, false)
		for _, e := range r.Paper.Expect {
			if e.Of != "top-1 accuracy, %" || e.Unverified {
				continue
			}
			i := slices.IndexFunc(runs, func(run Run) bool { return e.Run == "" || run.Name == e.Run })
			name := strings.TrimSpace(r.Name + " " + e.Run)
			if want := (row{float64(runs[i].Global), e.Value}); said[name] != want {
				t.Errorf("%s: the page says %v, the recipe %v", name, said[name], want)
			}
			delete(said, name)
		}
	}
	for name := range said {
		t.Errorf("the page has %s, whose recipe has no accuracy that was read", name)
	}
}
