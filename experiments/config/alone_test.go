package config

import (
	"strings"
	"testing"
)

// One worker alone has the batch, the samples and the environment of what is measured
// against it, and nothing of how that is distributed; it is there once in each environment
// and for each seed.
func TestOneWorkerAlone(t *testing.T) {
	t.Parallel()
	runs := mustRuns(t, "model: mlp\nmode: server\npolicy: asp\ncorrector: mean\nservers: 2\nworkers: 4\nbatch: 8\nsteps: 100\neval_every: 5\noverlap: buckets\nnet: sim\n"+
		"codec: [bf16, 'qsgd(bits=4)']\nseed: [1, 2]\nnetwork.bandwidth: [1Gbps, 10Gbps]\n")
	all := WithAlone(runs)
	if len(all) != len(runs)+4 {
		t.Fatalf("%d runs of %d are alone, want 4", len(all)-len(runs), len(runs))
	}
	places := map[string]bool{}
	for _, r := range all[len(runs):] {
		c := r.Config
		if !c.IsAlone() || c.Workers != 1 || c.Mode != "reduce" || c.Batch != 8 || c.Steps != 400 || c.EvalEvery != 20 || c.Codec != "raw" || c.Policy != "bsp" || c.Overlap != "none" {
			t.Errorf("%s: %+v", r.Name, c)
		}
		if !strings.HasPrefix(r.Name, "workers=1,") || !strings.Contains(r.Name, "seed=") || !strings.Contains(r.Name, "network.bandwidth=") {
			t.Errorf("it is called %s", r.Name)
		}
		places[c.Within()+c.Get("seed")] = true
	}
	if len(places) != 4 || !places[runs[0].Config.Within()+"1"] {
		t.Errorf("they are in %d places", len(places))
	}
	if again := WithAlone(all); len(again) != len(all) {
		t.Errorf("%d more", len(again)-len(all))
	}
	for _, text := range []string{
		"workers: 4\nseed: [1, 2]\n",                         // nothing is compared
		"workers: 4\nnet: local\ncodec: [raw, bf16]\n",       // on a real clock
		"workers: [1, 2]\nmode: reduce\n",                    // it is there
		"workers: 4\ndevice.slow: 1x2\ncodec: [raw, bf16]\n", // which of the devices?
	} {
		if runs := mustRuns(t, "steps: 10\n"+text); len(WithAlone(runs)) != len(runs) {
			t.Errorf("%q has one worker alone", text)
		}
	}
}
