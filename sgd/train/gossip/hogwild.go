package gossip

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Hogwild is SGD by threads that share one vector without a lock (Niu et al.
// 2011). A worker reads the parameters, value by value, while others write
// them, and subtracts its update, value by value, from what is there by then.
// Where an update is 0 it touches nothing, so that on sparse problems threads
// seldom meet. The published rate is constant within an epoch and falls by a
// factor after each: schedule step.
//
// Every access is atomic, and a value is subtracted by compare-and-swap, so no
// update is lost and the Go memory model has nothing to object to; what is racy
// is the algorithm. A worker computes on a copy, which spares the model from
// atomic loads. Moments, if the optimizer has any, are each worker's own.
//
// Workers must share memory: net local. Updates are counted as in mode adpsgd;
// staleness is how many updates others made between reading and writing. Nothing
// travels, so no bytes are billed.
//
// Rule: w ← w − rate·direction(g at w as read), value by value, atomically.
//
// Tuning: the rate as in asynchronous training of as many workers.
//
// Cost: no bytes; an atomic load and a compare-and-swap a value; a copy of the
// parameters a worker.
type Hogwild struct{}

var _ = train.Modes.Add("hogwild", "workers of one process write to shared parameters without a lock; net local only", Hogwild{})

// Traits implements Mode.
func (Hogwild) Traits(*train.Job) train.Traits {
	return train.Traits{PerUpdate: 1, Conduct: train.Free, Models: 1, SharedMemory: true, Steady: true, Codec: train.TakesPlain, Refuses: hogwildRefuses, Try: "net=local"}
}

var hogwildRefuses = map[string]string{
	"overlap": "workers exchange nothing",
	"codec":   "it sends nothing that a codec could encode",
}

// Check implements Mode.
func (Hogwild) Check(j *train.Job) error {
	_, err := train.NewPeer(train.NewRank(j, 0), compress.Raw{})
	return err
}

// Part implements Mode.
func (Hogwild) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, compress.Raw{})
	if err != nil {
		return nil, err
	}
	shared, err := train.Shared(r.Job(), shareOf{}, func() (*racy, error) { return newRacy(r.Job()), nil })
	if err != nil {
		return nil, err
	}
	n := &hog{Peer: p, shared: shared, read: make([]float32, len(p.X.F()))}
	p.X.Release()
	return p.Part(n), nil
}

// shareOf names the vector that workers of a process share.
type shareOf struct{}

// racy is a vector that any number of goroutines read and write at once.
type racy struct {
	bits []uint32 // of the values; accessed atomically
	made atomic.Int64

	mu     sync.Mutex
	loaded bool
}

func newRacy(j *train.Job) *racy {
	initial := j.Initial()
	r := &racy{bits: make([]uint32, len(initial))}
	r.store(initial)
	return r
}

func (r *racy) store(x []float32) {
	for i, v := range x {
		atomic.StoreUint32(&r.bits[i], math.Float32bits(v))
	}
}

// read copies the vector; values may be from different instants.
func (r *racy) read(dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(atomic.LoadUint32(&r.bits[i]))
	}
}

// sub subtracts u where it is not 0.
func (r *racy) sub(u []float32) {
	for i, v := range u {
		if v == 0 {
			continue
		}
		for p := &r.bits[i]; ; {
			old := atomic.LoadUint32(p)
			if atomic.CompareAndSwapUint32(p, old, math.Float32bits(math.Float32frombits(old)-v)) {
				break
			}
		}
	}
	r.made.Add(1)
}

// hog is a Hogwild worker.
type hog struct {
	*train.Peer
	shared *racy
	read   []float32
}

func (n *hog) Move(ctx context.Context) error {
	if n.Host().Virtual() {
		return train.ErrNotShared
	}
	made := n.shared.made.Load()
	n.shared.read(n.read)
	if err := n.Gradient(ctx, n.read); err != nil {
		return err
	}
	u := n.Direction(n.read)
	n.Late(int(n.shared.made.Load() - made))
	n.shared.sub(u)
	return nil
}

func (n *hog) Model() wire.Vector {
	v := wire.NewVector(len(n.read))
	n.shared.read(v.F())
	return v
}

// Keep implements train.Mover. The vector is kept by the first, and put back once for all
// who share it.
func (n *hog) Keep(k *checkpoint.Keeper) {
	if !k.Loads() {
		if n.ID() == 0 {
			k.Vector("param", n.Model().F())
		}
		return
	}
	r := n.shared
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return
	}
	if k.Vector("param", n.read); k.Err() == nil {
		r.store(n.read)
		r.loaded = true
	}
}
