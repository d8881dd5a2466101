package train_test

import (
	"testing"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
)

// 256 workers without a barrier on the virtual cluster, real gradients: time a
// gradient, those included that are under way when the last update is made. "bare"
// is a gradient by itself on one core: what the cluster adds to it, the update of
// the parameters among it, is the difference with -cpu 1; -cpu 2 should take half.
func BenchmarkAsync256(b *testing.B) {
	big := func(j *train.Job) {
		m, err := nn.Models.MustParse("mnistcnn(dropout=0)").New(sgd.Shape{C: 1, H: 28, W: 28}, 10)
		if err != nil {
			b.Fatal(err)
		}
		j.Model, j.Workers, j.Batch, j.Threads = m, 256, 64, 1
		j.Data = sgd.Dataset{Train: clusters{n: 4096, shape: sgd.Shape{C: 1, H: 28, W: 28}}, Test: clusters{n: 16, shape: sgd.Shape{C: 1, H: 28, W: 28}}}
	}
	b.Run("bare", func(b *testing.B) {
		j := job(b, big)
		params := make([]float32, j.Model.Layout().Size())
		grad := make([]float32, len(params))
		j.Model.Init(params, 1)
		var batch sgd.Batch
		if err := j.Data.Train.Batch(sgd.Draw{N: j.Batch}, &batch); err != nil {
			b.Fatal(err)
		}
		p := sgd.Pass{Params: params, Grad: grad, Scratch: j.Model.NewScratch(), Threads: 1}
		for b.Loop() {
			if _, err := j.Model.Grad(b.Context(), p, batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cluster", func(b *testing.B) {
		j := job(b, big, policy("asp"), func(j *train.Job) { j.Updates = b.N })
		b.ResetTimer()
		runOn(b, &sim.Net{}, j, nil)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N+j.Workers), "ns/gradient")
	})
}
