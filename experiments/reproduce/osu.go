package reproduce

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/gradlab/gradlab/experiments/figure"
)

// OSU is training on processors: one process a node, several, and many nodes;
// and the same question asked of this machine.
//
// Source: Jain, Awan, Subramoni and Panda 2019, speed-ups in the text of a talk.
type OSU struct{}

var _ = Studies.Add("osu", "training on CPUs: threads, processes a node, nodes; on Stampede2's model and on this machine", OSU{})

func (OSU) alone() {}

// Group implements Study.
func (OSU) Group() Group { return Scaling }

// Mechanisms implements Study.
func (OSU) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.law", `^lognormal.*$`, "constant"), Slow: true},
	}
}

// Run implements Study.
func (OSU) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "ResNet-152 on nodes of 48 cores; ResNet-20 on this machine",
		Source: "Jain, Awan, Subramoni and Panda 2019: speed-ups in the text of a talk; rates are in figures that the source does not hold",
		Stated: []string{
			"cluster stampede2: four processes a node, Omni-Path 12.5 GB/s, 2 µs, jitter of sigma 0.01, assumed; 2.5 images/s a process, assumed: a step of tens of seconds hides any network, so the speed-up over nodes is a weak test of the model",
			"threads of a process follow Amdahl: t threads are t/(1+f(t−1)) as fast, f fitted to the 1.35 by which four processes of 12 threads beat one of 48",
		},
	}
	var rates [2]float64
	for i, nodes := range []int{1, 128} {
		pr := lab.protocol()
		switch { // the slowest of many workers is nearly as slow at every step, that of a few is not
		case lab.Quick && nodes > 1:
			pr.warm, pr.steps = 1, 4
		case lab.Quick:
			pr.steps = 100
		}
		m, err := lab.simulate(ctx, pr, "cluster=stampede2", "timing=resnet152", "batch=64", "topology=rings", "overlap=buckets(bytes=64000000)", fmt.Sprintf("workers=%d", 4*nodes))
		if err != nil {
			return nil, err
		}
		rates[i] = m.mean
	}
	r.between(Claim, "128 nodes over one", "times", 125, rates[1]/rates[0], 123.75, 126.25)

	f := 0.35 / (47 - 1.35*11) // (1+47f)/(1+11f) = 1.35
	speed := func(processes int) float64 { t := 48.0 / float64(processes); return 48 / (1 + f*(t-1)) }
	r.within(Fitted, "4 processes of 12 threads over one of 48", "times", 1.35, speed(4)/speed(1), 0.02)
	best := speed(16) / speed(1)
	r.between(Derived, "most that more processes could gain, after Amdahl, before they cost memory and exchange", "times", 1.5, best, 1.35, 1.55)
	r.Notes = append(r.Notes,
		fmt.Sprintf("f = %.4f: two processes gain %.2f, eight %.2f; published are up to 1.47 and 1.5 on 32 nodes, tuned, and that four are best at batch 64, eight a little better at 32: what processes cost in memory and exchange is not in the model", f, speed(2)/speed(1), speed(8)/speed(1)),
		"no rates are published in the text, so its ratios between machines (Skylake up to 2.35 times a K80 on Inception-v4, V100 up to 3.32 times Skylake on ResNet-101, TensorFlow 2.5 times PyTorch on 128 nodes) have nothing to be compared with")
	return r, lab.threadsHere(ctx, r)
}

// threadsHere trains for real, in processes, with the cores of this machine dealt
// out in different ways.
func (l *Lab) threadsHere(ctx context.Context, r *Report) error {
	cores := runtime.GOMAXPROCS(0)
	steps := 120
	if l.Quick {
		steps = 8
	}
	ways, batches := [][2]int{{1, 1}, {1, cores}, {cores, 1}, {2 * cores, 1}}, []int{16, 64, 256}
	if l.Quick {
		ways, batches = ways[:3], []int{16, 64}
	}
	table := figure.Table{Title: fmt.Sprintf("this machine, %d cores: images/s of ResNet-20, all processes together", cores), Header: []string{"processes x threads"}}
	for _, batch := range batches {
		table.Header = append(table.Header, fmt.Sprintf("batch %d in all", batch))
	}
	for _, way := range ways {
		row := []string{fmt.Sprintf("%d x %d", way[0], way[1])}
		for _, batch := range batches {
			n := max(4, steps*64/batch)
			if batch == 16 { // short steps
				n = max(24, steps)
			}
			var at [2]float64
			for i, s := range []int{n / 2, n} { // what starting costs falls out of the difference
				res, err := l.run(ctx, fmt.Sprintf("processes=%d,threads=%d,batch=%d,steps=%d", way[0], way[1], batch, s), "net=grpc", "mode=reduce",
					"model=resnet20", "data=synthetic(dim=3072,side=32,n=4096,test=16)", "optimizer=momentum", "schedule=constant(lr=0.01)",
					fmt.Sprintf("workers=%d", way[0]), fmt.Sprintf("threads=%d", way[1]), fmt.Sprintf("batch=%d", max(1, batch/way[0])), fmt.Sprintf("steps=%d", s))
				if err != nil {
					return err
				}
				for _, rank := range res.Ranks {
					at[i] = math.Max(at[i], rank.Spent().Busy())
				}
			}
			row = append(row, fmt.Sprintf("%.0f", float64((n-n/2)*batch)/(at[1]-at[0])))
		}
		table.Rows = append(table.Rows, row)
	}
	r.Tables = append(r.Tables, table)
	return nil
}
