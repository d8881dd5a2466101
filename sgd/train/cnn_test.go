package train_test

import (
	"testing"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// The three roads again on the convolutional net, with dropout: masks are
// addressed by sample, so every road drops the same units. Few steps: roads differ
// by 1e-8 until, once in a hundred steps or so, a rounding error takes some value
// across the corner of a ReLU or another one leads a maximum, and by 1e-2 after.
func TestThreeRoadsCNN(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("seconds")
	}
	cnn := func(j *train.Job) {
		shape := sgd.Shape{C: 1, H: 28, W: 28}
		j.Model = model(t, "mnistcnn", shape)
		j.Data = sgd.Dataset{Name: "clusters", Train: clusters{1000, shape, 3, false}, Test: clusters{100, shape, 3, true}}
		j.Updates, j.Workers, j.Batch = 5, 2, 8
		j.Timing.FLOPS = 1e11
	}
	one, _ := runOn(t, &local.Net{}, job(t, cnn, optimizer("sgd"), func(j *train.Job) { j.Workers, j.Batch = 1, 16 }), nil)
	server, _ := runOn(t, &local.Net{}, job(t, cnn, optimizer("sgd")), nil)
	ring, _ := runOn(t, &local.Net{}, job(t, cnn, optimizer("sgd"), mode("reduce")), nil)
	for name, o := range map[string]*train.Observer{"server": server, "ring": ring} {
		if d := distance(one.Params, o.Params); d > 1e-6 {
			t.Errorf("%s: relative distance to one worker is %g", name, d)
		} else {
			t.Logf("%s: relative distance to one worker is %.2g", name, d)
		}
	}
	for name, o := range map[string]*train.Observer{"server": server, "ring": ring} {
		m := "server"
		if name == "ring" {
			m = "reduce"
		}
		v, _ := runOn(t, simulated(0), job(t, cnn, optimizer("sgd"), mode(m)), nil)
		if v.SHA256 != o.SHA256 {
			t.Errorf("%s: sim and local differ in their bits", name)
		}
	}
}
