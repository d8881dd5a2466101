package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/sgd/profile"
)

// GoyalTime is how long a step of large-minibatch SGD takes, and an epoch, as
// servers are added.
//
// Source: Goyal et al. 2017, figures 7 and 8, as quoted in COMS E6998 (2019).
//
// By default the GPU's rate and the jitter are those of the data file, which fit=256 finds.
type GoyalTime struct {
	Fit int `doc:"GPUs whose published time the jitter is fitted to anew, 256 or 352, with the GPU's rate to one server; 0: those of the data file, fitted to 256"`
}

var _ = Studies.Add("goyal-time", "ImageNet in an hour: time of a step and of an epoch from 8 to 352 P100", GoyalTime{})

// Validate checks the options.
func (s GoyalTime) Validate() error {
	if s.Fit != 0 && s.Fit != 256 && s.Fit != 352 {
		return fmt.Errorf("option \"fit\" is %d; want 256 or 352, or 0 for what the data file has", s.Fit)
	}
	return nil
}

// What is published: images a second of one server, seconds of a step of 256 GPUs, and
// of an epoch on 352.
const (
	goyalImages = 1_281_167
	goyalServer = 90 * goyalImages / (29 * 3600.0)
	goyalStep   = 3600.0 * 8192 / (90 * goyalImages)
	goyalEpoch  = 30.0
)

// keys are those of a run on so many GPUs.
func (GoyalTime) keys(gpus int, overlap bool, more ...string) []string {
	return append([]string{"cluster=big-basin", "timing=resnet50", "batch=32", "topology=leaders(auto)", "overlap=" + map[bool]string{true: "buckets(bytes=1)", false: "none"}[overlap], fmt.Sprintf("workers=%d", gpus)}, more...)
}

// fit finds the GPU's rate, in operations a second, with which one server has the
// published rate, and the jitter with which the GPUs in Fit have the published time.
func (s GoyalTime) fit(ctx context.Context, lab *Lab, pr protocol) (flops, jitter float64, err error) {
	flops, jitter = 6*138*profile.Profiles.MustParse("resnet50").Profile().ForwardMACs(), 0.05
	rate := func(gpus int, flops, jitter float64) (float64, error) {
		m, err := lab.simulate(ctx, pr, s.keys(gpus, true, "device=none", fmt.Sprintf("device.flops=%g", flops), fmt.Sprintf("device.law=lognormal(sigma=%g)", jitter))...)
		return m.mean, err
	}
	want := 8192 / goyalStep
	if s.Fit == 352 {
		want = goyalImages / goyalEpoch
	}
	for range 2 {
		got, err := rate(8, flops, jitter)
		if err != nil {
			return 0, 0, err
		}
		flops = round(flops * goyalServer / got)
		jitter, err = solve(ctx, jitter, func(x float64) (float64, error) {
			got, err := rate(s.Fit, flops, x)
			return got / want, err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return flops, jitter, nil
}

// Group implements Study.
func (GoyalTime) Group() Group { return Scaling }

// Mechanisms implements Study.
func (GoyalTime) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "overlap", Doc: "gradients leave after the backward pass", Off: swap("overlap", `^buckets.*$`, "none"), Slow: true},
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.law", `^lognormal.*$`, "constant"), Slow: true},
	}
}

// Run implements Study.
func (s GoyalTime) Run(ctx context.Context, lab *Lab) (*Report, error) {
	pr := lab.protocol()
	if lab.Quick {
		pr.steps = 6
	}
	fitted, own, said := 256, []string(nil), "two parameters are fitted: a GPU's rate, so that a server of eight makes the 8·138 images/s of the 8 P100 of He et al. in the same source (29 h), and the jitter, sigma 0.064, so that 256 GPUs take an hour; that is more than the 0.0245 of PowerAI DDL's P100, and stands for whatever else made servers wait"
	if s.Fit > 0 {
		flops, jitter, err := s.fit(ctx, lab, pr)
		if err != nil {
			return nil, err
		}
		fitted, own = s.Fit, []string{"device=none", fmt.Sprintf("device.flops=%g", flops), fmt.Sprintf("device.law=lognormal(sigma=%g)", jitter)}
		said = fmt.Sprintf("fit=%d: a GPU's rate, %.3g operations a second, fitted to a server of eight; the jitter, sigma %.3g, to the time of %d GPUs", s.Fit, flops, jitter, s.Fit)
	}
	r := &Report{
		Title:  "ResNet-50, 32 images a GPU, 8 GPUs a server",
		Source: "Goyal et al. 2017, figures 7 and 8, as quoted in COMS E6998 (2019); 256 GPUs: an hour for 90 epochs",
		Stated: []string{
			"cluster big-basin: 50 Gb/s Ethernet of which 80 % carry payload (the paper's 12.8 of 15 Gb/s), 15 µs, NVLink 40 GB/s each way",
			said,
			"three phases as published: sums in a server, all-reduce between servers by halving and doubling or around a ring, whichever is cheaper, and back (topology=leaders(auto)); with overlap every tensor leaves by itself when its gradient is there (overlap=buckets(bytes=1))",
		},
	}
	type run struct {
		gpus    int
		overlap bool
	}
	runs := []run{{8, true}, {64, true}, {256, true}, {352, true}, {256, false}, {352, false}}
	step := map[run]float64{}
	got := make([]float64, len(runs))
	err := each(ctx, len(runs), func(i int) error {
		m, err := lab.simulate(ctx, pr, s.keys(runs[i].gpus, runs[i].overlap, own...)...)
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
		for _, p := range []struct {
			name                   string
			overlap                bool
			published, least, most float64
		}{{"%d GPUs: efficiency over one server", true, 90, 88, 93}, {"%d GPUs, without overlap", false, 78, 74, 82}} {
			name, ours := fmt.Sprintf(p.name, n), 100*one/step[run{n, p.overlap}]
			r.between(HeldOut, name, "%", p.published, ours, p.least, p.most)
			if err := lab.predict(ctx, r, HeldOut, name, p.published, ours, s.keys(n, p.overlap, own...)...); err != nil {
				return nil, err
			}
		}
	}
	kind := func(gpus int) Kind {
		if gpus == fitted {
			return Fitted
		}
		return HeldOut
	}
	r.within(Fitted, "8 GPUs: images a second", "images/s", goyalServer, 256/one, 0.03)
	r.within(kind(256), "256 GPUs: time of a step", "s", goyalStep, step[run{256, true}], 0.03)
	r.within(kind(352), "352 GPUs: time of an epoch", "s", goyalEpoch, step[run{352, true}]*goyalImages/(32*352), 0.03)
	r.Notes = append(r.Notes, fmt.Sprintf("one server: %.4f s a step; 64 GPUs %.4f, 256 %.4f, 352 %.4f", one, step[run{64, true}], step[run{256, true}], step[run{352, true}]))
	return r, nil
}
