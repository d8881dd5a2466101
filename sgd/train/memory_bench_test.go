package train_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// BenchmarkMemory is what virtual workers with real gradients of 3.3 million
// parameters need at most, in MB and in vectors of parameters. First ever more
// workers that compute on one version, then as many workers on ever more versions:
// after W/k updates of k gradients each nobody computes on what was before.
// A policy holds up to k gradients, some are computed ahead, and a vector's buffer
// is a power of two; the rest are versions.
//
//	go test -run '^$' -bench Memory -benchtime 1x ./sgd/train
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		policy                     string
		workers, versions, updates int
	}{
		{"ksync(k=4)", 16, 1, 20},
		{"ksync(k=4)", 64, 1, 20},
		{"ksync(k=4)", 256, 1, 20},
		{"kasync(k=16)", 256, 16, 48},
		{"kasync(k=4)", 256, 64, 160},
		{"asp", 256, 256, 600},
	} {
		b.Run(c.policy, func(b *testing.B) {
			for b.Loop() {
				var peak atomic.Uint64
				j := job(b, policy(c.policy), func(j *train.Job) {
					j.Workers, j.Batch, j.Threads, j.Updates = c.workers, 1, 1, c.updates
					data := newConstant(mnist, j.Batch)
					j.Data = sgd.Dataset{Train: data, Test: data}
					j.Optimizer, j.Timing.FLOPS = sgd.Plain{}, 1e7 // few gradients are on the wire at once
					j.Model = weighed{model(b, "mnistcnn(dropout=0)", mnist), &peak}
				})
				runtime.GC()
				runOn(b, &sim.Net{Network: &sim.Fair{Bandwidth: 1e12}}, j, nil)
				Vector := 4 * float64(j.Model.Layout().Size())
				b.ReportMetric(float64(c.workers), "workers")
				b.ReportMetric(float64(c.versions), "versions")
				b.ReportMetric(float64(peak.Load())/1e6, "peak-MB")
				b.ReportMetric(float64(peak.Load())/Vector, "peak-vectors")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// weighed is a model that notes how much memory is in use when gradients begin.
type weighed struct {
	sgd.Model
	peak *atomic.Uint64
}

func (m weighed) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	for old := m.peak.Load(); s.HeapAlloc > old && !m.peak.CompareAndSwap(old, s.HeapAlloc); old = m.peak.Load() {
	}
	return m.Model.Grad(ctx, p, b)
}
