package reproduce

import (
	"context"
	"fmt"
)

// DDL is the scaling of PowerAI DDL with and without overlap of reduction and
// backward pass.
//
// Source: Cho et al. 2017, PowerAI DDL, as quoted in COMS E6998, lecture 5
// (2019).
type DDL struct{}

var _ = Studies.Add("ddl", "PowerAI DDL: ResNet-50 on 4 to 256 P100, reduction overlapped (Caffe) or not (Torch)", DDL{})

// Group implements Study.
func (DDL) Group() Group { return Scaling }

// Mechanisms implements Study.
func (DDL) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "overlap", Doc: "gradients leave after the backward pass", Off: swap("overlap", `^true$`, "false"), Slow: true},
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.jitter", `^.+$`, "0"), Slow: true},
		{Name: "network", Doc: "ten thousand times the bandwidth between nodes", Off: swap("network.bandwidth", `^.+$`, "10TB/s"), Slow: true},
	}
}

// Run implements Study.
func (DDL) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "speed-up over one node of four GPUs, ResNet-50, batch 32 a GPU",
		Source: "Cho et al. 2017, PowerAI DDL, as quoted in COMS E6998, lecture 5 (2019)",
		Stated: []string{
			"cluster minsky: 195 images/s a P100 (TensorFlow's benchmarks, batch 32), NVLink 40 GB/s each way, 3 µs",
			"one jitter for both: sigma 0.0245 on every GPU's step, fitted to Caffe at 64 GPUs; the bandwidth between nodes, 7.6 GB/s each way, fitted to Torch at 256 GPUs",
			"all-reduce in parallel rings across nodes (topology=rings); Caffe with overlap and buckets of 4 MB, Torch without overlap",
			"compared are the printed speed-ups over the number of nodes; the printed percentages are rounded once more",
		},
	}
	pr := lab.protocol()
	if lab.Quick {
		pr.steps = 12
	}
	for _, c := range []struct {
		name   string
		keys   []string
		fitted int
		gpus   []int
		speed  []float64
	}{
		{"Caffe, overlap", []string{"overlap=true", "bucket=4000000"}, 64, []int{8, 16, 32, 64, 128, 256}, []float64{2.0, 3.9, 7.9, 15.5, 30.5, 60.6}},
		{"Torch, no overlap", []string{"overlap=false"}, 256, []int{16, 64, 96, 128, 192, 256}, []float64{3.5, 13.7, 20.5, 27.2, 40.3, 53.7}},
	} {
		all := append([]int{4}, c.gpus...)
		rates := make([]float64, len(all))
		err := each(ctx, len(all), func(i int) error {
			p := pr
			if lab.Quick && all[i] <= 32 {
				p.steps *= 80 / max(8, all[i]) // few ranks: the mean of a longer run
			}
			m, err := lab.simulate(ctx, p, append([]string{"cluster=minsky", "timing=resnet50", "batch=32", "topology=rings", fmt.Sprintf("workers=%d", all[i])}, c.keys...)...)
			if rates[i] = m.mean; err == nil {
				lab.logf("%s, %d GPUs: %.0f images/s", c.name, all[i], m.mean)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, n := range c.gpus {
			kind := HeldOut
			if n == c.fitted {
				kind = Fitted
			}
			nodes := float64(n) / 4
			published := 100 * c.speed[i] / nodes
			r.between(kind, fmt.Sprintf("%s, %d GPUs: efficiency", c.name, n), "%", published, 100*rates[i+1]/rates[0]/nodes, published-1.5, published+1.5)
		}
	}
	return r, nil
}
