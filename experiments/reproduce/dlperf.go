package reproduce

import (
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/profile"
)

// DLPerf is ResNet-50 on up to 32 V100 in eight frameworks: what a prediction that does
// not know the framework can reach, and whether its intervals cover what was measured.
//
// Source: DLPerf of Oneflow-Inc, ResNet-50 v1.5, float32, batch 128 a GPU.
type DLPerf struct {
	Fit []int `doc:"GPUs of the points that constants.overhead is fitted to, one or two of 8, 16 and 32, rising"`
}

var _ = Studies.Add("dlperf", "ResNet-50 on 8 to 32 V100 in eight frameworks, each predicted with an interval from its rate on one", DLPerf{Fit: []int{8}})

// Validate checks the options.
func (d DLPerf) Validate() error { return checkFit(d.Fit, dlperfGPUs) }

//go:embed measured/dlperf-resnet50-fp32.csv
var dlperfFile string

// dlperfGPUs are the numbers of GPUs beside one.
var dlperfGPUs = []int{8, 16, 32}

// dlperfRates reads the source's table: images a second by framework, in the order of
// the file, and by GPUs.
func dlperfRates() (names []string, rates map[string]map[int]float64, err error) {
	rows, err := csv.NewReader(strings.NewReader(dlperfFile)).ReadAll()
	if err != nil {
		return nil, nil, err
	}
	rates = map[string]map[int]float64{}
	for _, row := range rows[1:] {
		gpus, err1 := strconv.Atoi(row[1])
		rate, err2 := strconv.ParseFloat(row[2], 64)
		if err1 != nil || err2 != nil {
			return nil, nil, fmt.Errorf("measured/dlperf-resnet50-fp32.csv: row %q", row)
		}
		if rates[row[0]] == nil {
			names, rates[row[0]] = append(names, row[0]), map[int]float64{}
		}
		rates[row[0]][gpus] = rate
	}
	return names, rates, nil
}

// Group implements Study.
func (DLPerf) Group() Group { return Scaling }

// Mechanisms implements Study.
func (DLPerf) Mechanisms() []Mechanism {
	return []Mechanism{{Name: "spread", Doc: "parameters are taken as exact: intervals have no width", Slow: true}}
}

// Run implements Study.
func (d DLPerf) Run(ctx context.Context, lab *Lab) (*Report, error) {
	names, rates, err := dlperfRates()
	if err != nil {
		return nil, err
	}
	r := &Report{
		Title:  "images a second, ResNet-50 v1.5 in float32, batch 128 a GPU, nodes of eight V100",
		Source: "DLPerf of Oneflow-Inc (measured/dlperf-resnet50-fp32.csv): eight frameworks on 1, 8, 16 and 32 GPUs",
		Stated: []string{
			"a GPU's rate is the framework's own on one GPU; NVLink carries 130 GB/s, a node's NIC 100 Gb/s; ring over all GPUs in buckets of 25 MB, with overlap",
			"transport=nccl-rdma: its share, overlap and jitter were fitted to all of these points and three of GRACE, so they are not blind here. constants.overhead is fitted anew, one for all eight frameworks, to their points with the GPUs of fit",
			"bounds beside a point: the prediction, if what was published lies at an end of its 90 % interval",
		},
		Notes: []string{"the spread between frameworks on equal hardware is the least error of whoever does not know the framework"},
	}
	draws := 64
	if lab.Quick {
		draws = 24
	}
	overhead, err := d.overhead(ctx, lab, names, rates)
	if err != nil {
		return nil, err
	}
	r.Stated = append(r.Stated, fmt.Sprintf("fit=%v: constants.overhead=%.3g", d.Fit, overhead))
	// How wide an interval is does not depend on the device's rate: it is drawn once a size.
	mean := 0.0
	for _, n := range names {
		mean += rates[n][1] / float64(len(names))
	}
	width := map[int]*ask.Interval{}
	for _, gpus := range dlperfGPUs {
		c, err := d.config(lab, mean, gpus, overhead)
		if err != nil {
			return nil, err
		}
		if width[gpus], err = ask.Propagate(ctx, c, draws, d.step); err != nil {
			return nil, err
		}
		middle, err := ask.Blended(ctx, c, d.step)
		if err != nil {
			return nil, err
		}
		width[gpus] = width[gpus].Scaled(1 / middle)
		if lab.lacks("spread") {
			width[gpus].Low, width[gpus].High = width[gpus].Middle, width[gpus].Middle
		}
		lab.logf("%d GPUs: a step takes %.3g to %.3g of its prediction", gpus, width[gpus].Low, width[gpus].High)
	}
	return r, d.judge(ctx, lab, r, names, rates, width, overhead)
}

// judge predicts every point.
func (d DLPerf) judge(ctx context.Context, lab *Lab, r *Report, names []string, rates map[string]map[int]float64, width map[int]*ask.Interval, overhead float64) error {
	var held, fitted errs
	covered, n, spread := 0, 0, map[int][]float64{}
	for _, name := range names {
		for _, gpus := range dlperfGPUs {
			c, err := d.config(lab, rates[name][1], gpus, overhead)
			if err != nil {
				return err
			}
			step, err := ask.Blended(ctx, c, d.step)
			if err != nil {
				return err
			}
			published, ours := rates[name][gpus], float64(128*gpus)/step
			spread[gpus] = append(spread[gpus], published/rates[name][1]/float64(gpus))
			kind := Derived // nine in ten should be inside; how many are is judged
			if slices.Contains(d.Fit, gpus) {
				kind = Fitted
				fitted.add(ours, published)
			} else {
				held.add(ours, published)
				n++
				if width[gpus].Covers(ours / published) {
					covered++
				}
				r.predicts(fmt.Sprintf("%s, %d GPUs", name, gpus), published, ours, ours/width[gpus].High, ours/width[gpus].Low)
			}
			r.between(kind, fmt.Sprintf("%s, %d GPUs", name, gpus), "images/s", published, ours, published*width[gpus].Low, published*width[gpus].High)
		}
	}
	r.covers("published rates inside the 90 % interval, of those not fitted", covered, n)
	w := width[32]
	r.between(HeldOut, "half of the interval at 32 GPUs", "%", 12, 50*(w.High-w.Low), 0, 12)
	floor := 0.0
	for _, gpus := range dlperfGPUs {
		floor = max(floor, slices.Max(spread[gpus])-slices.Min(spread[gpus]))
	}
	r.Notes = append(r.Notes, fmt.Sprintf("errors: rms %.1f %%, median %+.1f %% of %d points not fitted; rms %.1f %% of %d fitted; efficiencies of frameworks lie up to %.0f points apart",
		100*held.rms(), 100*median(held), len(held), 100*fitted.rms(), len(fitted), 100*floor))
	return nil
}

// overhead is that with which the points that are fitted have no error in the mean.
func (d DLPerf) overhead(ctx context.Context, lab *Lab, names []string, rates map[string]map[int]float64) (float64, error) {
	x := 0.027
	for range 4 {
		sum := 0.0
		for _, name := range names {
			for _, gpus := range d.Fit {
				c, err := d.config(lab, rates[name][1], gpus, x)
				if err != nil {
					return 0, err
				}
				step, err := ask.Blended(ctx, c, d.step)
				if err != nil {
					return 0, err
				}
				sum += math.Log(float64(128*gpus)/step/rates[name][gpus]) / float64(len(names)*len(d.Fit))
			}
		}
		x = max(0, (1+x)*math.Exp(sum)-1)
	}
	return x, nil
}

// config is a run on so many GPUs of a rate on one.
func (DLPerf) config(lab *Lab, rate float64, gpus int, overhead float64) (config.Config, error) {
	resnet := profile.Profiles.MustParse("resnet50").Profile()
	return lab.weightless(9, "transport=nccl-rdma", "timing=resnet50", "batch=128", fmt.Sprintf("workers=%d", gpus), fmt.Sprintf("device.flops=%g", 6*rate*resnet.ForwardMACs()),
		fmt.Sprintf("constants.overhead=%g", overhead), "network.per_host=8", "node=nvlink-v100", "network.bandwidth=100Gbps", "network.latency=5us",
		"topology=ring", "overlap=buckets(bytes=25000000)")
}

// step is the time of an update, in seconds.
func (DLPerf) step(ctx context.Context, c config.Config) (float64, error) {
	m, err := ask.Measure(ctx, c, ask.Watch{})
	if err != nil {
		return 0, err
	}
	return 1 / m.Rate(1, 1), nil
}
