package reproduce

import (
	"context"
	"fmt"
	"slices"
)

// DDL is the scaling of PowerAI DDL with and without overlap of reduction and
// backward pass.
//
// Source: Cho et al. 2017, PowerAI DDL, as quoted in COMS E6998, lecture 5
// (2019).
//
// By default jitter and bandwidth are those of the data file, which fit=[64,256] finds.
type DDL struct {
	Fit []int `doc:"GPUs of two points to fit anew: Caffe's, to which the jitter is fitted, and Torch's, for the bandwidth; none: those of the data file, fitted to 64 and 256"`
}

var _ = Studies.Add("ddl", "PowerAI DDL: ResNet-50 on 4 to 256 P100, reduction overlapped (Caffe) or not (Torch)", DDL{})

// ddlSeries are the published speed-ups over one node.
var ddlSeries = []struct {
	name  string
	keys  []string
	gpus  []int
	speed []float64
}{
	{"Caffe, overlap", []string{"overlap=buckets(bytes=4000000)"}, []int{8, 16, 32, 64, 128, 256}, []float64{2.0, 3.9, 7.9, 15.5, 30.5, 60.6}},
	{"Torch, no overlap", []string{"overlap=none"}, []int{16, 64, 96, 128, 192, 256}, []float64{3.5, 13.7, 20.5, 27.2, 40.3, 53.7}},
}

// Validate checks the options.
func (s DDL) Validate() error {
	for i, n := range s.Fit {
		if len(s.Fit) != 2 || !slices.Contains(ddlSeries[i].gpus, n) {
			return fmt.Errorf("option \"fit\" is %v; want none, or one of %v for the jitter and one of %v for the bandwidth", s.Fit, ddlSeries[0].gpus, ddlSeries[1].gpus)
		}
	}
	return nil
}

// Group implements Study.
func (DDL) Group() Group { return Scaling }

// Mechanisms implements Study.
func (DDL) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "overlap", Doc: "gradients leave after the backward pass", Off: swap("overlap", `^buckets.*$`, "none"), Slow: true},
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.law", `^lognormal.*$`, "constant"), Slow: true},
		{Name: "network", Doc: "ten thousand times the bandwidth between nodes", Off: swap("network.bandwidth", `^.+$`, "10TB/s"), Slow: true},
	}
}

// Run implements Study.
func (s DDL) Run(ctx context.Context, lab *Lab) (*Report, error) {
	pr := lab.protocol()
	if lab.Quick {
		pr.steps = 12
	}
	fitted, own, said := []int{64, 256}, []string(nil), "one jitter for both: sigma 0.0245 on every GPU's step, fitted to Caffe at 64 GPUs; the bandwidth between nodes, 7.6 GB/s each way, fitted to Torch at 256 GPUs"
	if len(s.Fit) > 0 {
		jitter, bandwidth, err := s.fit(ctx, lab, pr)
		if err != nil {
			return nil, err
		}
		fitted, own = s.Fit, ddlKeys(jitter, bandwidth)
		said = fmt.Sprintf("fit=%v: one jitter for both, sigma %.3g, fitted to Caffe at %d GPUs; the bandwidth between nodes, %.3g GB/s each way, fitted to Torch at %d GPUs", s.Fit, jitter, s.Fit[0], bandwidth/1e9, s.Fit[1])
	}
	r := &Report{
		Title:  "speed-up over one node of four GPUs, ResNet-50, batch 32 a GPU",
		Source: "Cho et al. 2017, PowerAI DDL, as quoted in COMS E6998, lecture 5 (2019)",
		Stated: []string{
			"cluster minsky: 195 images/s a P100 (TensorFlow's benchmarks, batch 32), NVLink 40 GB/s each way, 3 µs",
			said,
			"all-reduce in parallel rings across nodes (topology=rings); Caffe with overlap and buckets of 4 MB, Torch without overlap",
			"compared are the printed speed-ups over the number of nodes; the printed percentages are rounded once more",
		},
	}
	for k, c := range ddlSeries {
		rates, err := s.rates(ctx, lab, pr, append(c.keys[:len(c.keys):len(c.keys)], own...), append([]int{4}, c.gpus...))
		if err != nil {
			return nil, err
		}
		for i, n := range c.gpus {
			kind := HeldOut
			if n == fitted[k] {
				kind = Fitted
			}
			nodes := float64(n) / 4
			published := 100 * c.speed[i] / nodes
			name, ours := fmt.Sprintf("%s, %d GPUs: efficiency", c.name, n), 100*rates[i+1]/rates[0]/nodes
			r.between(kind, name, "%", published, ours, published-1.5, published+1.5)
			if err := lab.predict(ctx, r, kind, name, published, ours, s.keys(n, append(c.keys[:len(c.keys):len(c.keys)], own...))...); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// ddlKeys set what is fitted.
func ddlKeys(jitter, bandwidth float64) []string {
	return []string{fmt.Sprintf("device.law=lognormal(sigma=%g)", jitter), fmt.Sprintf("network.bandwidth=%gB/s", bandwidth)}
}

// keys are those of a run on so many GPUs.
func (DDL) keys(gpus int, more []string) []string {
	return append([]string{"cluster=minsky", "timing=resnet50", "batch=32", "topology=rings", fmt.Sprintf("workers=%d", gpus)}, more...)
}

// rates are those of so many GPUs, in images a second.
func (s DDL) rates(ctx context.Context, lab *Lab, pr protocol, keys []string, gpus []int) ([]float64, error) {
	rates := make([]float64, len(gpus))
	err := each(ctx, len(gpus), func(i int) error {
		p := pr
		if lab.Quick && gpus[i] <= 32 {
			p.steps *= 80 / max(8, gpus[i]) // few ranks: the mean of a longer run
		}
		m, err := lab.simulate(ctx, p, s.keys(gpus[i], keys)...)
		if rates[i] = m.mean; err == nil {
			lab.logf("%s, %d GPUs: %.0f images/s", keys[0], gpus[i], m.mean)
		}
		return err
	})
	return rates, err
}

// fit fits the jitter to Caffe's point and the bandwidth to Torch's, in turn: the one
// hardly depends on the other's parameter.
func (s DDL) fit(ctx context.Context, lab *Lab, pr protocol) (jitter, bandwidth float64, err error) {
	jitter, bandwidth = 0.02, 8e9
	off := func(k int, jitter, bandwidth float64) (float64, error) {
		c, n := ddlSeries[k], s.Fit[k]
		rates, err := s.rates(ctx, lab, pr, append(c.keys[:len(c.keys):len(c.keys)], ddlKeys(jitter, bandwidth)...), []int{4, n})
		if err != nil {
			return 0, err
		}
		return rates[1] / rates[0] / c.speed[slices.Index(c.gpus, n)], nil
	}
	for range 2 {
		if jitter, err = solve(ctx, jitter, func(x float64) (float64, error) { return off(0, x, bandwidth) }); err != nil {
			return 0, 0, err
		}
		if bandwidth, err = solve(ctx, bandwidth, func(x float64) (float64, error) { return off(1, jitter, x) }); err != nil {
			return 0, 0, err
		}
	}
	return jitter, bandwidth, nil
}
