package train

import (
	"fmt"
	"math"
	"sort"

	"github.com/gradlab/gradlab/lrschedule"
)

// A run whose batch changes has a course of batches: stretches of steps of its
// workers, each with a batch. Steps of all workers have the same batch, and samples
// follow each other in the stream without a gap, so that an epoch stays one shuffle.

// stretchOf is the steps from one on, until the next stretch begins: batch samples a
// worker and step, behind so many samples of all workers.
type stretchOf struct {
	step   int
	before uint64
	batch  int
}

// batches is a course of batches, in order; none: the job's Batch throughout.
type batches []stretchOf

// at is the stretch of a step.
func (b batches) at(step int) stretchOf {
	return b[sort.Search(len(b), func(i int) bool { return b[i].step > step })-1]
}

// BatchAt is the samples of each worker in a step.
func (j *Job) BatchAt(step int) int {
	switch {
	case j.joined != nil:
		return j.joined.share(0)
	case j.batches == nil:
		return j.Batch
	}
	return j.batches.at(step).batch
}

// drawn is how many samples so many batches are, of all workers: those of whole steps,
// and of the next one begun.
func (j *Job) drawn(batches int) uint64 {
	switch {
	case j.joined != nil:
		return j.joined.drawn(batches)
	case j.batches == nil:
		return uint64(batches) * uint64(j.Batch)
	}
	step := batches / j.Workers
	s := j.batches.at(step)
	return s.before + uint64(batches-s.step*j.Workers)*uint64(s.batch)
}

// Drawn is how many samples the first so many updates of the run take.
func (j *Job) Drawn(updates int) uint64 { return j.drawn(updates * j.PerUpdate()) }

// Batch after batch is planned with walker: it follows a batch schedule through a run.
type walker struct {
	j     *Job
	times lrschedule.Times
	to    batches
	step  int
	drawn uint64
}

// mostSteps is how many steps a batch schedule is followed through at most.
const mostSteps = 10_000_000

// walk begins at the first step.
func (j *Job) walk() (*walker, error) {
	times, err := j.Batches.Times(j.run())
	if err != nil {
		return nil, err
	}
	return &walker{j: j, times: times}, nil
}

// batch is the batch of the present step.
func (w *walker) batch() (int, error) {
	of := float64(w.j.Data.Train.Len())
	times := w.times(lrschedule.Progress{Step: w.step * w.j.Workers / w.j.PerUpdate(), Samples: w.drawn, Epoch: float64(w.drawn) / of})
	x := math.Round(times * float64(w.j.Batch))
	if !(x >= 1 && x <= math.MaxInt32) {
		return 0, fmt.Errorf("batch_schedule %s makes a batch of %v samples of the %d that it begins with, in epoch %.3g: want at least 1, and fewer than two billion", lrschedule.Batches.Spec(w.j.Batches), x, w.j.Batch, float64(w.drawn)/of)
	}
	return int(x), nil
}

// next makes a step.
func (w *walker) next() error {
	b, err := w.batch()
	if err != nil {
		return err
	}
	if w.step > mostSteps {
		return fmt.Errorf("a run of more than %d steps cannot be planned with batch_schedule %s; ask for fewer epochs or steps", mostSteps, lrschedule.Batches.Spec(w.j.Batches))
	}
	if n := len(w.to); n == 0 || w.to[n-1].batch != b {
		w.to = append(w.to, stretchOf{w.step, w.drawn, b})
	}
	w.step++
	w.drawn += uint64(b) * uint64(w.j.Workers)
	return nil
}

// Grows says whether the batch may change during the run.
func (j *Job) Grows() bool { return !lrschedule.IsFixed(j.Batches) }

// PlanBatches follows the batch schedule up to the last update, so that Drawn and what
// follows from it are right; Prepare does it. The error says which batch cannot be.
func (j *Job) PlanBatches() error {
	j.batches = nil
	if !j.Grows() || j.Workers < 1 || j.Batch < 1 || j.Data.Train == nil || j.Data.Train.Len() == 0 {
		return nil
	}
	w, err := j.walk()
	if err != nil {
		return err
	}
	steps := (j.Updates*j.PerUpdate() + j.Workers - 1) / j.Workers
	for w.step <= steps { // one more, to be drawn ahead
		if err := w.next(); err != nil {
			return err
		}
	}
	j.batches = w.to
	return nil
}

// UpdatesIn is how many updates come closest to so many passes over the training set,
// at least 1.
func (j *Job) UpdatesIn(epochs float64) (int, error) {
	want := float64(epochs * float64(j.Data.Train.Len()))
	if !j.Grows() {
		return max(1, int(want/float64(j.Samples())+0.5)), nil
	}
	w, err := j.walk()
	if err != nil {
		return 0, err
	}
	for float64(w.drawn) < want {
		before := w.drawn
		if err := w.next(); err != nil {
			return 0, err
		}
		if float64(w.drawn)-want > want-float64(before) { // the step is farther behind than its begin is ahead
			w.step--
			break
		}
	}
	return max(1, w.step*j.Workers/j.PerUpdate()), nil
}

// checkBatches refuses batches that change where workers do not step together.
func (j *Job) checkBatches() error {
	if !j.Grows() {
		return nil
	}
	if t := j.Traits(); !t.Timeless || t.Coordinator {
		return fmt.Errorf("batch_schedule %s: in mode %s with this policy workers do not step together, and each would be at another batch; use batch_schedule=fixed, or a run in step, such as mode=reduce", lrschedule.Batches.Spec(j.Batches), Modes.Spec(j.Mode))
	}
	return j.PlanBatches()
}
