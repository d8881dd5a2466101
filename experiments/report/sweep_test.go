package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// swept are runs without weights of codecs on networks, by what seconds says of each.
func swept(codecs []string, networks []float64, seconds func(codec string, network float64, seed uint64) float64) (runs []*store.Run) {
	for _, network := range networks {
		for _, codec := range codecs {
			runs = append(runs, seeded(codec, 0.9, func(r *store.Run) {
				r.Config.Weightless, r.Config.Target, r.Config.NetworkBandwidth = true, record.Goal{}, network
				r.Result.VirtualSeconds = seconds(codec, network, r.Config.Seed)
				if codec == "bf16" {
					r.Result.BytesUp, r.Result.BytesDown = r.Result.BytesUp/2, r.Result.BytesDown/2
				}
			})...)
		}
	}
	return runs
}

// crossing are times of bf16, which ends as soon on any network, and of raw, whose time falls
// with bandwidth; they cross at 300 MB/s, a little elsewhere with each seed.
func crossing(codec string, network float64, seed uint64) float64 {
	if codec == "bf16" {
		return 1
	}
	return 3e8 / network * (1 + 0.05*(float64(seed)-2))
}

// Where two configurations change places over a bandwidth is said with its interval over
// seeds, in the text, on the page, in a figure and as data.
func TestCrossingOverBandwidth(t *testing.T) {
	t.Parallel()
	r := mustNew(t, swept([]string{"raw", "bf16"}, []float64{1e8, 1e9, 1e10}, crossing))
	if len(r.Views) != 1 || r.Views[0].Key != "network.bandwidth" || len(r.Views[0].Crossings) != 1 {
		t.Fatalf("%d views, %+v", len(r.Views), r.Views)
	}
	c := r.Views[0].Crossings[0]
	if c.Of != "seconds" || c.Below != "bf16" || c.Above != "raw" || math.Abs(float64(c.At)/3e8-1) > 1e-6 ||
		math.Abs(float64(c.Low)/2.85e8-1) > 1e-6 || math.Abs(float64(c.High)/3.15e8-1) > 1e-6 {
		t.Errorf("%+v", c)
	}
	want := "Over network.bandwidth: raw is sooner above 2.4Gbps (90 %: 2.3Gbps to 2.5Gbps), bf16 below."
	if s := r.Swept(); len(s) != 1 || s[0] != want {
		t.Errorf("%q", s)
	}
	page := html(t, r)
	for _, s := range []string{want, `id="over-network-bandwidth"`} {
		if !strings.Contains(page, s) {
			t.Errorf("the page has no %s", s)
		}
	}
	found := 0
	for _, s := range r.Views[0].Panels[0].Series {
		if s.Name == "crossing" && s.Tag == "2.4Gbps" && math.Abs(s.X[0]/2.4e9-1) < 1e-6 && math.Abs(s.Y[0]-1) < 1e-6 {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%+v", r.Views[0].Panels[0].Series)
	}
	for _, task := range r.Tasks {
		b, err := json.Marshal(task.Summary().Crossings)
		if err != nil || !strings.HasPrefix(string(b), `[{"key":"network.bandwidth","of":"seconds","below":"bf16","above":"raw","at":`) {
			t.Errorf("%s %v", b, err)
		}
	}
	files, err := r.Figures(t.TempDir())
	if err != nil || !strings.Contains(strings.Join(files, " "), "/over-network-bandwidth.svg") {
		t.Errorf("%v %v", files, err)
	}
}

// Figures of one place are named by its values where these have units, and by its keys.
func TestPlacesInFileNames(t *testing.T) {
	t.Parallel()
	for facet, want := range map[string]string{
		"network.bandwidth=100Mbps": "100mbps", "network.bandwidth=1.5Gbps workers=4": "1-5gbps-workers-4", "net=sim": "net-sim", "device=v100": "device-v100", "": "",
	} {
		if got := (&Task{Facet: facet}).place(); got != want {
			t.Errorf("%q: %q, want %q", facet, got, want)
		}
	}
}

// A crossing is said only where the order is told on both sides of it: not where seeds
// scatter by more than configurations differ, and not with one seed and no draws.
func TestCrossingIsTold(t *testing.T) {
	t.Parallel()
	networks := []float64{1e8, 1e10}
	scattered := swept([]string{"raw", "bf16"}, networks, func(codec string, network float64, seed uint64) float64 {
		if network < 5e9 {
			return crossing(codec, network, seed)
		}
		return []float64{1, 1.4, 0.7}[seed%3] * map[string]float64{"raw": 0.98, "bf16": []float64{1, 0.6, 1.5}[seed%3]}[codec]
	})
	var one []*store.Run
	for _, run := range swept([]string{"raw", "bf16"}, networks, crossing) {
		if run.Config.Seed == 2 {
			one = append(one, run)
		}
	}
	for name, runs := range map[string][]*store.Run{"scattered on one side": scattered, "one seed": one} {
		r := mustNew(t, runs)
		if s := r.Swept(); len(s) != 0 {
			t.Errorf("%s: %q", name, s)
		}
		for _, task := range r.Tasks {
			if c := task.Summary().Crossings; c == nil || len(c) != 0 {
				t.Errorf("%s: crossings are %+v", name, c)
			}
		}
	}
	// The same seed with draws of real clusters tells it.
	r := mustNew(t, one)
	if err := r.Lie(16, func(run *store.Run) (*Draws, error) {
		d := &Draws{From: "transport test"}
		for i := range 21 {
			f := 1.0
			if run.Config.Codec == "raw" {
				f += 0.02 * float64(i-10)
			}
			d.Seconds = append(d.Seconds, f*run.Result.VirtualSeconds)
		}
		return d, nil
	}); err != nil {
		t.Fatal(err)
	}
	want := "Over network.bandwidth: raw is sooner above 2.4Gbps (90 %: 2Gbps to 2.8Gbps), bf16 below."
	if s := r.Swept(); len(s) != 1 || s[0] != want {
		t.Errorf("with draws: %q", s)
	}
}

// An option within spec text is an axis too, and so is a whole number; configurations on
// no line, and the other keys, are left alone.
func TestAxisOfAnOption(t *testing.T) {
	t.Parallel()
	var codecs []string
	for _, wrapper := range []string{"topk(keep=%g)", "feedback(topk(keep=%g))"} {
		for _, keep := range []float64{0.001, 0.01, 0.1} {
			codecs = append(codecs, fmt.Sprintf(wrapper, keep))
		}
	}
	runs := swept(append(codecs, "raw"), []float64{1e8}, func(codec string, _ float64, seed uint64) float64 {
		var keep float64
		if _, err := fmt.Sscanf(strings.TrimPrefix(codec, "feedback("), "topk(keep=%g)", &keep); err != nil {
			return 50
		}
		if strings.HasPrefix(codec, "feedback") {
			return 1 + 0.001*float64(seed)
		}
		return 100*keep + 0.001*float64(seed)
	})
	task := mustNew(t, runs).Tasks[0]
	if len(task.views) != 1 || task.views[0].Key != "codec.keep" || len(task.views[0].lines) != 2 || len(task.views[0].lines[0].points) != 3 {
		t.Fatalf("%d views", len(task.views))
	}
	c := task.views[0].Crossings
	if len(c) != 1 || c[0].Below != "topk(keep=…)" || c[0].Above != "feedback(topk(keep=…))" || math.Abs(float64(c[0].At)-0.01) > 1e-3 {
		t.Errorf("%+v", c)
	}
	if task.Sections[1].Name != "over-codec-keep" {
		t.Errorf("the second figure is %s", task.Sections[1].Name)
	}
}

// Over two swept keys a matrix says who is soonest by both.
func TestWinnersOverTwoAxes(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	for _, workers := range []int{2, 4} {
		for _, r := range swept([]string{"raw", "bf16"}, []float64{1e8, 1e10}, crossing) {
			if r.Config.Workers = workers; workers == 2 && r.Config.Codec == "raw" {
				r.Result.VirtualSeconds /= 10
			}
			r.ID = r.Config.Hash()
			runs = append(runs, r)
		}
	}
	r := mustNew(t, runs)
	if len(r.Winners) != 1 {
		t.Fatalf("%d matrices", len(r.Winners))
	}
	w := r.Winners[0]
	if got := fmt.Sprint(w.Rows, w.RowNames, w.Columns, w.ColumnNames, w.Cells[0][0].Text, w.Cells[0][1].Text, w.Cells[1]); got !=
		"network.bandwidth[800Mbps 80Gbps]workers[2 4]raw, 3.3× aheadbf16, 3.0× ahead[{raw, 333× ahead } {raw, 33× ahead }]" {
		t.Error(got)
	}
	if page := html(t, r); !strings.Contains(page, "raw, 3.3× ahead") {
		t.Error("it is not on the page")
	}
}
