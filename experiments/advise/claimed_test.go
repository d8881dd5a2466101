package advise

import (
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/gossip"
)

// elsewhere is a mode that nobody has named to package advise.
type elsewhere struct{ gossip.DPSGD }

var _ = train.Modes.Add("elsewhere", "a mode of another module", elsewhere{})

// Modes are candidates by what they claim, with the step that the virtual cluster takes;
// of one that nobody has trained with it is not known how it learns.
func TestModesByClaim(t *testing.T) {
	q, err := Ask([]string{"timing=lenet", "workers=4", "network.bandwidth=10Gbps", "network.latency=50us", "device=v100"})
	if err != nil {
		t.Fatal(err)
	}
	q.Codecs, q.Topologies, q.Buckets, q.Servers = []string{"raw"}, []string{"ring"}, []int{0}, []int{1}
	options, err := q.Options(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if q.LeftOut != nil {
		t.Errorf("left out: %v", q.LeftOut)
	}
	known, err := q.Know(options, nil)
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]float64{}
	for _, o := range options {
		steps[o.Way()] = o.Step
	}
	for _, way := range []string{"elsewhere", "agp", "choco", "easgd", "downpour", "rudra(tree=4)"} {
		if s := steps[way]; !(s > 0 && s < 1) || known[way].Tasks != 0 {
			t.Errorf("%s: a step of %g s, %d tasks", way, s, known[way].Tasks)
		}
	}
	// It is dpsgd by another name.
	if steps["elsewhere"] != steps["dpsgd"] {
		t.Errorf("a step of the same mode takes %g and %g s", steps["elsewhere"], steps["dpsgd"])
	}
	for _, hidden := range []string{"hogwild", "sandblaster", "gather"} {
		if _, ok := steps[hidden]; ok {
			t.Errorf("%s is a candidate", hidden)
		}
	}
	// Runs of one's own say how it learns.
	known, err = q.Know(options, []Evidence{{Optimizer: "sgd", Codec: "elsewhere", Updates: 1.1, Seeds: 3, Trainings: 1, Workers: 4, From: "mine"}})
	if err != nil || known["elsewhere"].Tasks != 1 {
		t.Errorf("runs of one's own count for %d tasks: %v", known["elsewhere"].Tasks, err)
	}
}

// What a run shows the learning of is its codec or its mode, not both together, and its
// updates are counted in gradients of every worker.
func TestLearnt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys map[string]string
		way  string
		all  float64
	}{
		{map[string]string{"codec": "bf16"}, "bf16", 1},
		{map[string]string{"mode": "server", "codec": "bf16"}, "bf16", 1},
		{map[string]string{"mode": "server", "policy": "asp"}, "asp", 0.25},
		{map[string]string{"mode": "adpsgd"}, "adpsgd", 0.25},
		{map[string]string{"mode": "sgp(late=2)"}, "sgp(late=2)", 1},
		{map[string]string{"mode": "localsgd(h=32)"}, "localsgd(h=32)", 1},
		{map[string]string{"mode": "localsgd(h=32)", "codec": "bf16"}, "", 1},
		{map[string]string{"mode": "server", "down_codec": "bf16"}, "", 1},
	} {
		r := config.Default()
		r.Workers = 4
		for k, v := range c.keys {
			if err := r.Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		if way, all := learnt(r), allWorkers(r); way != c.way || all != c.all {
			t.Errorf("%v: way %q, %g gradients of every worker an update; want %q, %g", c.keys, way, all, c.way, c.all)
		}
	}
}
