package train_test

import (
	"github.com/gradlab/gradlab/sgd/train"
	"testing"
)

func TestZZ(t *testing.T) {
	for _, o := range []string{"sgd", "momentum"} {
		for _, lr := range []string{"0.01", "0.02", "0.05"} {
			for _, m := range []string{"agp", "adpsgd"} {
				g := "one_peer"
				if m == "adpsgd" {
					g = "ring"
				}
				j := job(t, mode(m), graph(g), optimizer(o), rate("constant(lr="+lr+")"), func(j *train.Job) { j.Updates = 800; j.EvalEvery = 100; j.NonFinite = "zero" })
				ob, s := runOn(t, simulated(0), j, nil)
				t.Log(m, o, lr, ob.Final.Accuracy, ob.Final.Loss)
				for _, e := range s.evals {
					t.Logf("%.3f %.3g ", e.Accuracy, e.Spread)
				}
			}
		}
	}
}
