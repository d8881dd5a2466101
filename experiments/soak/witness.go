package soak

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// witness sees what ranks are told, and the parameters that gradients are taken at.
type witness struct {
	workers, servers int
	batch            int
	voids            bool     // gradients may be voided: the word of that may cross with others
	wrong            []string // what broke a promise, a few of it

	gone     map[[2]int][]departed // told to the first of the second
	versions map[channel]uint64
	heard    uint64 // hash of every frame received, in order

	mu     sync.Mutex // of points: passes are computed on several cores
	points map[int]map[uint64][]int
}

// channel is what one rank tells another, with a tag where frames are taken out of order.
type channel struct {
	from, to int
	tag      comm.Tag
}

// departed is a rank that is gone: who waited for a tag was told, and of which process.
type departed struct {
	tag         comm.Tag
	incarnation uint32
}

func newWitness(j *train.Job) *witness {
	return &witness{workers: j.Workers, servers: j.World() - j.Workers, batch: j.Batch,
		gone: map[[2]int][]departed{}, voids: j.Policy.Traits(j.Workers).Voids, versions: map[channel]uint64{}, points: map[int]map[uint64][]int{}}
}

func (w *witness) blame(format string, a ...any) {
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, a...))
	}
}

// begins forgets what an earlier process of a rank was told.
func (w *witness) begins(rank int) {
	maps.DeleteFunc(w.gone, func(k [2]int, _ []departed) bool { return k[0] == rank })
	maps.DeleteFunc(w.versions, func(c channel, _ uint64) bool { return c.to == rank })
}

// meets forgets what ranks were told that all meet again, and go back.
func (w *witness) meets() {
	clear(w.gone)
	clear(w.versions)
}

// on is a rank's program under the witness's eyes; beside, unless nil, stands between them.
func (w *witness) on(p comm.Program, beside func(comm.Host) comm.Host) comm.Program {
	return func(ctx context.Context, h comm.Host) error {
		if beside != nil {
			h = beside(h)
		}
		w.begins(h.Rank())
		return p(ctx, seen{h.(comm.Elastic), w})
	}
}

// seen is a rank whose witness hears what it hears.
type seen struct {
	comm.Elastic
	w *witness
}

func (h seen) Go(name string, p comm.Program) {
	h.Elastic.Go(name, func(ctx context.Context, o comm.Host) error { return p(ctx, seen{o.(comm.Elastic), h.w}) })
}

func (h seen) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	f, err := h.Elastic.Recv(ctx, from, tag)
	if err != nil {
		if e, ok := err.(*comm.PeerError); ok && !e.Ended {
			k := [2]int{h.Rank(), e.Rank}
			h.w.gone[k] = append(h.w.gone[k], departed{tag, e.Incarnation})
		}
		return f, err
	}
	h.w.hears(h.Rank(), f)
	return f, nil
}

// hears takes down a frame that a rank has received.
func (w *witness) hears(rank int, f comm.Frame) {
	x, sum := f.Header, fnv.New64a()
	from := int(x.From)
	_ = binary.Write(sum, binary.LittleEndian, []uint64{w.heard, uint64(from), uint64(rank), uint64(x.Tag), uint64(x.Kind), x.Step, x.Seq, x.Version, math.Float64bits(x.Value)})
	if x.Kind != comm.Report { // whose bodies tell wall times
		_, _ = sum.Write(f.Body)
	}
	w.heard = sum.Sum64()
	for _, d := range w.gone[[2]int{rank, from}] {
		if x.Incarnation <= d.incarnation && comm.Matches(comm.AnyRank, d.tag, x.From, x.Tag) {
			w.blame("rank %d was told that rank %d is gone, and then hears it", rank, from)
		}
	}
	if x.Kind == comm.Parameters && from >= w.workers && from < w.workers+w.servers && rank < w.workers {
		k := channel{from: from, to: rank}
		if w.voids {
			k.tag = x.Tag
		}
		if x.Version < w.versions[k] {
			w.blame("rank %d sends rank %d version %d after version %d", from, rank, x.Version, w.versions[k])
		}
		w.versions[k] = x.Version
	}
}

// witnessed is a model whose gradients are taken where a witness sees it. A batch tells
// worker and step.
type witnessed struct {
	sgd.Model
	w *witness
}

func (m witnessed) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	at, sum := int(b.First)/m.w.batch, fnv.New64a()
	_ = binary.Write(sum, binary.LittleEndian, p.Params)
	m.w.mu.Lock()
	step := at / m.w.workers
	if m.w.points[step] == nil {
		m.w.points[step] = map[uint64][]int{}
	}
	where := m.w.points[step]
	where[sum.Sum64()] = append(where[sum.Sum64()], at%m.w.workers)
	m.w.mu.Unlock()
	return m.Model.Grad(ctx, p, b)
}

// apart says at which step workers were at different parameters; "" if at none.
func (w *witness) apart() string {
	for step := range len(w.points) {
		if n := len(w.points[step]); n > 1 {
			return fmt.Sprintf("at step %d workers are at %d different points", step, n)
		}
	}
	return ""
}
