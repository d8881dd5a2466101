package reproduce

import (
	"context"
	"fmt"
)

// GoyalTime is how long a step of large-minibatch SGD takes, and an epoch, as
// servers are added.
//
// Source: Goyal et al. 2017, figures 7 and 8, as quoted in COMS E6998 (2019).
type GoyalTime struct{}

var _ = Studies.Add("goyal-time", "ImageNet in an hour: time of a step and of an epoch from 8 to 352 P100", GoyalTime{})

// Group implements Study.
func (GoyalTime) Group() Group { return Scaling }

// Mechanisms implements Study.
func (GoyalTime) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "overlap", Doc: "gradients leave after the backward pass", Off: swap("overlap", `^true$`, "false"), Slow: true},
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.jitter", `^.+$`, "0"), Slow: true},
	}
}

// Run implements Study.
func (GoyalTime) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "ResNet-50, 32 images a GPU, 8 GPUs a server",
		Source: "Goyal et al. 2017, figures 7 and 8, as quoted in COMS E6998 (2019); 256 GPUs: an hour for 90 epochs",
		Stated: []string{
			"cluster big-basin: 50 Gb/s Ethernet of which 80 % carry payload (the paper's 12.8 of 15 Gb/s), 15 µs, NVLink 40 GB/s each way",
			"two parameters are fitted: a GPU's rate, so that a server of eight makes the 8·138 images/s of the 8 P100 of He et al. in the same source (29 h), and the jitter, sigma 0.064, so that 256 GPUs take an hour; that is more than the 0.0245 of PowerAI DDL's P100, and stands for whatever else made servers wait",
			"three phases as published: sums in a server, all-reduce between servers by halving and doubling or around a ring, whichever is cheaper, and back (topology=leaders(auto)); with overlap every tensor leaves by itself when its gradient is there (bucket=1)",
		},
	}
	pr := lab.protocol()
	if lab.Quick {
		pr.steps = 6
	}
	type run struct {
		gpus    int
		overlap bool
	}
	runs := []run{{8, true}, {64, true}, {256, true}, {352, true}, {256, false}, {352, false}}
	step := map[run]float64{}
	got := make([]float64, len(runs))
	err := each(ctx, len(runs), func(i int) error {
		m, err := lab.simulate(ctx, pr, "cluster=big-basin", "timing=resnet50", "batch=32", "topology=leaders(auto)", "bucket=1",
			fmt.Sprintf("overlap=%v", runs[i].overlap), fmt.Sprintf("workers=%d", runs[i].gpus))
		if err == nil {
			got[i] = float64(32*runs[i].gpus) / m.mean
			lab.logf("%d GPUs, overlap=%v: %.4f s a step", runs[i].gpus, runs[i].overlap, got[i])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, k := range runs {
		step[k] = got[i]
	}
	one := step[run{8, true}]
	for _, n := range []int{256, 352} {
		r.between(HeldOut, fmt.Sprintf("%d GPUs: efficiency over one server", n), "%", 90, 100*one/step[run{n, true}], 88, 93)
		r.between(HeldOut, fmt.Sprintf("%d GPUs, without overlap", n), "%", 78, 100*one/step[run{n, false}], 74, 82)
	}
	const images = 1_281_167
	r.within(Fitted, "8 GPUs: images a second", "images/s", 90*images/(29*3600.0), 256/one, 0.03)
	r.within(Fitted, "256 GPUs: time of a step", "s", 3600.0*8192/(90*images), step[run{256, true}], 0.03)
	r.within(HeldOut, "352 GPUs: time of an epoch", "s", 30, step[run{352, true}]*images/(32*352), 0.03)
	r.Notes = append(r.Notes, fmt.Sprintf("one server: %.4f s a step; 64 GPUs %.4f, 256 %.4f, 352 %.4f", one, step[run{64, true}], step[run{256, true}], step[run{352, true}]))
	return r, nil
}
