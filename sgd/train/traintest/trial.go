package traintest

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// point is where a worker took the gradient of a step: a mark of the parameters.
type point struct {
	worker, step int
	params       uint64 // markOf
}

// markOf tells parameters from others, in this process.
func markOf(params []float32) uint64 {
	b, ok := f32.Bytes(params)
	if !ok {
		b = f32.AppendBytes(nil, params)
	}
	return maphash.Bytes(markSeed, b)
}

var markSeed = maphash.MakeSeed()

// pointing is a model that notes the points of its gradients. Batches tell worker and
// step.
type pointing struct {
	sgd.Model
	workers, batch int
	mu             *sync.Mutex
	points         *[]point
}

func (m pointing) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	at := int(b.First) / m.batch
	m.mu.Lock()
	*m.points = append(*m.points, point{at % m.workers, at / m.workers, markOf(p.Params)})
	m.mu.Unlock()
	return m.Model.Grad(ctx, p, b)
}

// deed is what a rank did.
type deed uint8

const (
	sends    deed = iota // a frame, which is about to leave
	computes             // work begins
)

// event is one deed.
type event struct {
	rank int
	deed deed
	comm.Header
	body []byte
}

// tape is what happened on the virtual cluster, in order.
type tape struct {
	mu     sync.Mutex
	events []event
}

func (t *tape) note(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// on is a program of a rank whose deeds are noted, and which ends with an error where it
// panics.
func (t *tape) on(rank int, p comm.Program) comm.Program {
	return func(ctx context.Context, h comm.Host) error {
		return safely(func() error { return p(ctx, taped{h, rank, t}) })
	}
}

// taped is a rank whose deeds are noted.
type taped struct {
	comm.Host
	rank int
	tape *tape
}

func (h taped) Go(name string, p comm.Program) { h.Host.Go(name, h.tape.on(h.rank, p)) }

func (h taped) Send(ctx context.Context, to int, f comm.Frame) error {
	e := event{h.rank, sends, f.Header, slices.Clone(f.Body)}
	e.From, e.To = int32(h.rank), int32(to)
	h.tape.note(e)
	return h.Host.Send(ctx, to, f)
}

func (h taped) Do(ctx context.Context, w comm.Work) error {
	h.tape.note(event{rank: h.rank, deed: computes})
	return h.Host.Do(ctx, w)
}

// trial is a run of a mode on the virtual cluster, and all that was seen of it.
type trial struct {
	job     *train.Job
	traits  train.Traits
	obs     *train.Observer
	last    *checkpoint.State // its last checkpoint
	reports map[int]record.RankReport
	events  []event
	points  []point
}

// fit is a job of the mode: ways are tried in turn, of which it takes one at least.
func fit(m train.Mode, opts ...option) (*train.Job, error) {
	var errs []error
	for _, p := range []string{"bsp", "asp"} {
		for _, g := range []string{"ring", "one_peer"} {
			j := impossible(append([]option{policy(p), graph(g), func(j *train.Job) { j.Mode = m }}, opts...)...)
			err := safely(j.Check)
			if err == nil {
				return j, nil
			}
			errs = append(errs, err)
		}
	}
	return nil, errors.Join(errs...)
}

// rounds is an option: so many updates if everybody has a part in each, as many for
// each worker otherwise.
func rounds(n int) option {
	return func(j *train.Job) {
		if j.Updates = n; j.PerUpdate() < j.Workers {
			j.Updates *= j.Workers
		}
	}
}

// try runs a job on a net; nil is a virtual cluster.
func try(j *train.Job, net comm.Net, from *checkpoint.State) (*trial, error) {
	if net == nil {
		net = virtual(0)
	}
	r := &trial{job: j, traits: j.Mode.Traits(j), reports: map[int]record.RankReport{}}
	j.Model = pointing{j.Model, j.Workers, j.Batch, new(sync.Mutex), &r.points}
	j.Prepare()
	kept := &result{Observer: &train.Observer{Job: j, Start: from}}
	r.obs, kept.Sink = kept.Observer, kept
	t := &tape{}
	var programs []comm.Program
	err := safely(func() (err error) {
		programs, err = j.Programs(r.obs)
		return err
	})
	if err != nil {
		return nil, err
	}
	for rank, p := range programs {
		programs[rank] = t.on(rank, p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := net.Run(ctx, programs); err != nil {
		return nil, err
	}
	for _, rep := range r.obs.Reports {
		r.reports[rep.Rank] = rep
	}
	r.events = t.events
	if n := len(kept.states); n > 0 {
		r.last = kept.states[n-1]
	}
	return r, nil
}

// tried is fit and try.
func tried(m train.Mode, opts ...option) (*trial, error) {
	j, err := fit(m, append([]option{rounds(12)}, opts...)...)
	if err != nil {
		return nil, err
	}
	return try(j, nil, nil)
}

// passes counts the gradients that each worker took.
func (r *trial) passes() (each []int, sum int) {
	each = make([]int, r.job.Workers)
	for _, e := range r.events {
		if e.deed == computes && e.rank < r.job.Workers {
			each[e.rank]++
			sum++
		}
	}
	return each, sum
}

// sent lists the frames that look picks among those sent.
func (r *trial) sent(look func(event) bool) (out []event) {
	for _, e := range r.events {
		if e.deed == sends && look(e) {
			out = append(out, e)
		}
	}
	return out
}

// dying is the virtual cluster on which a worker dies at an instant.
func dying(rank int, at float64) comm.Net {
	n := virtual(0)
	n.Faults = []nemesis.Act{{Rank: rank, At: time.Duration(at * 1e9)}}
	return n
}

var errTrait = errors.New("claims")

// unkept is the error of a claim that is not kept, or of one that is missing.
func unkept(format string, a ...any) error {
	return fmt.Errorf("%w "+format, append([]any{errTrait}, a...)...)
}
