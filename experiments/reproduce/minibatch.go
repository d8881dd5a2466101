package reproduce

import (
	"fmt"
)

// minibatch is the task of studies of large batches: each worker has 32 samples, and
// batches differ in how many workers there are, as in Goyal et al. 2017.
type minibatch struct {
	data   []string // keys of data and model
	says   string   // of them
	size   int      // samples trained on
	epochs int
	small  int // batch of the reference, over all workers
	tries  int // seeds of a candidate
}

// minibatch is the task at the size of the study.
func (l *Lab) minibatch() minibatch {
	if l.Quick {
		return minibatch{[]string{"data=mnist", "train_limit=12288", "model=mlp(hidden=[64])"},
			"mlp(hidden=[64]) on the first 12,288 samples of MNIST, tested on all 10,000", 12288, 12, 64, 2}
	}
	return minibatch{[]string{"data=cifar10", "train_limit=8192", "test_limit=5000", "augment=true", "model=wrn(depth=10,width=1)"},
		"wrn(depth=10,width=1) on 8,192 pictures of CIFAR-10, shifted and mirrored, tested on 5,000; batch norm over each worker's 32", 8192, 12, 64, 2}
}

// stated words what all runs have in common.
func (m minibatch) stated() []string {
	return []string{
		fmt.Sprintf("task: %s; %d epochs, 32 samples a worker, one shuffle over all workers, mean of all gradients", m.says, m.epochs),
		"Nesterov momentum 0.9 and weight decay 1e-4 where nothing else is said; a run whose gradient is not finite goes on with 0 in its place, and counts with the accuracy it ends at",
	}
}

// keys are those of every run.
func (m minibatch) keys() []string {
	return append([]string{"mode=reduce", "batch=32", "nonfinite=zero", fmt.Sprintf("epochs=%d", m.epochs)}, m.data...)
}

// batch is the key of so many samples over all workers.
func batchOf(samples int) string { return fmt.Sprintf("workers=%d", samples/32) }

// nesterov is the update rule, with further options of the momentum.
func nesterov(options string) string {
	return "optimizer=chain(decay(rate=1e-4),nesterov(beta=0.9" + options + "))"
}

// falls are 30, 60 and 80 of 90 epochs in a run of m's length.
func (m minibatch) falls() string {
	e := float64(m.epochs) / 90
	return fmt.Sprintf("at=[%.4g,%.4g,%.4g]", 30*e, 60*e, 80*e)
}

// step is the schedule of a rate that is divided by ten at the falls.
func (m minibatch) step(rate float64) string { return fmt.Sprintf("step(lr=%g,%s)", rate, m.falls()) }

// linear is step under the linear scaling rule, at the reference batch the rate.
func (m minibatch) linear(rate float64) string {
	return fmt.Sprintf("linear(%s,reference=%d)", m.step(rate), m.small)
}

// warmEpochs is how long a rate rises.
const warmEpochs = 2

// gradual is a schedule behind a warm-up that begins at a rate.
func gradual(schedule string, from float64) string {
	return fmt.Sprintf("warmup(%s,epochs=%d,from=%g)", schedule, warmEpochs, from)
}

// rates is the grid that base rates are tuned over at the reference batch.
func (m minibatch) rates() []float64 {
	if len(m.data) > 3 { // batch norm
		return octaves(0.00625, 6)
	}
	return octaves(0.003125, 6)
}

// on makes candidates for one batch: a schedule and a rule for each rate.
func (m minibatch) on(batch int, rule string, rates []float64, schedule func(rate float64) string) []candidate {
	return grid(rates, nil, func(rate float64, _ string) []string {
		return []string{batchOf(batch), rule, "schedule=" + schedule(rate)}
	})
}
