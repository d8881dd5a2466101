package train

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/lrschedule"
)

// Membership is who trains from an update of the run on, until the next one begins: some
// of the workers, and all servers. Its
// epoch is in the header of every frame that members send each other, and frames of
// earlier epochs are refused.
type Membership struct {
	Epoch   int     `json:"epoch"`             // 1, 2, …
	Step    int     `json:"step"`              // updates that were made before
	Samples uint64  `json:"samples"`           // drawn for them
	Since   int     `json:"since,omitempty"`   // updates that were made before these workers began with each other
	Workers []int   `json:"workers"`           // ranks, in order: member i draws the i-th share of a step
	Left    []Leave `json:"left,omitempty"`    // since the epoch before
	Joined  []int   `json:"joined,omitempty"`  // those of Workers who came since then
	Anew    []int   `json:"anew,omitempty"`    // those of Joined whose process knows nothing of what the worker did before
	Planned int     `json:"planned,omitempty"` // moves of Job.Leaves and Job.Joins that are behind
	Seconds float64 `json:"seconds,omitempty"` // when it was formed, on the net's clock
}

// Leave is the end of a worker's part in a run.
type Leave struct {
	Worker  int    `json:"worker"`
	Why     string `json:"why"`
	Planned bool   `json:"planned,omitempty"` // by Job.Leaves: nothing was lost but its residual
	// Residual is the L2 norm of what its codecs had yet to send, of one that left by plan.
	Residual float64 `json:"residual,omitempty"`
}

// ranks are all members of an epoch, in order: workers, then the job's servers.
func (m *Membership) ranks(j *Job) []int {
	all := slices.Clone(m.Workers)
	for r := j.Workers; r < j.World(); r++ {
		all = append(all, r)
	}
	return all
}

// number is that of a rank of the run among the members; negative: it is none.
func (m *Membership) number(j *Job, rank int) int {
	if rank >= j.Workers {
		return rank - j.Workers + len(m.Workers)
	}
	return slices.Index(m.Workers, rank)
}

// healer is the member whose state those who have come begin from.
func (m *Membership) healer() int {
	i := slices.IndexFunc(m.Workers, func(w int) bool { return !slices.Contains(m.Joined, w) })
	return m.Workers[i]
}

// OnResize says what becomes of batch and learning rate when workers leave or come.
type OnResize uint8

// What stays when the number of workers changes.
const (
	// KeepGlobal: the samples of an update, which those who are there share, and the
	// learning rate. Where they cannot be shared evenly the first workers take one more,
	// and gradients count by their samples.
	KeepGlobal OnResize = iota
	// ScaleLR: the samples of a worker. The learning rate is in proportion to the number
	// of workers (Goyal et al. 2017, section 2.1).
	ScaleLR
)

// ParseOnResize reads "keep_global" or "scale_lr".
func ParseOnResize(text string) (OnResize, error) {
	i := slices.Index(resizes[:], text)
	if i < 0 {
		return 0, fmt.Errorf("want keep_global or scale_lr, not %q", text)
	}
	return OnResize(i), nil
}

// String is the text that ParseOnResize reads.
func (o OnResize) String() string { return resizes[o] }

var resizes = [...]string{"keep_global", "scale_lr"}

// joined is how a job goes on from the first update of an epoch of membership: of is the
// run's job, and the samples of a step are those of all members.
type joined struct {
	of      *Job
	m       Membership
	samples int
	rate    float64 // factor on the schedule's
}

// as is the job as the members see it: they are its workers 0, 1, …. All members of a
// process share it, and what they share in one epoch is the next one's no more, but for
// the gate of cores, and the parameters of ranks without servers.
func (j *Job) as(m Membership) (*Job, error) {
	type epoch int
	return Shared(j, epoch(m.Epoch), func() (*Job, error) {
		v := *j
		v.Workers, v.Here = len(m.Workers), min(j.Here, len(m.Workers))
		v.joined = &joined{of: j, m: m, samples: j.Batch * j.Workers, rate: 1}
		if j.OnResize == ScaleLR {
			v.joined.samples = j.Batch * v.Workers
			v.joined.rate = float64(v.Workers) / float64(j.Workers)
		}
		v.cores = j.cores.again(&v)
		delete(j.cores.shelf.kept, epoch(m.Epoch-2)) // nobody is there any more
		return &v, nil
	})
}

// share is how many samples of a step are a member's.
func (e *joined) share(member int) int {
	n := len(e.m.Workers)
	share := e.samples / n
	if member < e.samples%n {
		share++
	}
	return share
}

// drawn is Job.drawn: batches of whole steps, and of the first members of the next one.
func (e *joined) drawn(batches int) uint64 {
	n := len(e.m.Workers)
	step, first := batches/n, batches%n
	return e.m.Samples + uint64((step-e.m.Step)*e.samples+first*(e.samples/n)+min(first, e.samples%n))
}

// weight is the factor on a worker's gradient of so many samples, so that the mean over
// workers is the mean over samples: 1 where all have as many, or gradients are not summed.
func (j *Job) weight(samples int) float64 {
	if j.joined == nil || j.joined.samples%j.Workers == 0 {
		return 1
	}
	if t := j.Traits(); !t.Sums && t.Servers == 0 {
		return 1
	}
	return float64(samples*j.Workers) / float64(j.joined.samples)
}

// scaled is the schedule of the run, as the epoch has it.
func (e *joined) scaled() (lrschedule.Schedule, error) {
	s, err := e.of.Rates()
	if err != nil || e.rate == 1 {
		return s, err
	}
	return func(p lrschedule.Progress) float64 { return e.rate * s(p) }, nil
}

// device is which device of the run a worker computes on, counted from the last one too.
func (j *Job) device(worker int) (first, last int) {
	switch {
	case j.places != nil:
		return j.places(worker)
	case j.joined == nil:
		return worker, j.Workers - 1 - worker
	}
	w := j.joined.m.Workers[worker]
	return w, j.joined.of.Workers - 1 - w
}
