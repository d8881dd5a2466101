package mode

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/mean"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Fragments is local SGD whose workers agree on one fragment f of the model at a time, in
// the manner of Streaming DiLoCo (Douillard et al. 2025): the next one behind each step.
//
//	a ← a − (1/W) Σ decode(encode(a − xᵢ)),  xᵢ ← a   in f
//
// So a step sends a part of the model, and no step all of it.
type Fragments struct {
	N int `doc:"in about how many fragments the model is cut, at least 2"`
}

var _ = train.Modes.Add("fragments", "local SGD that averages one fragment of the model behind each step", Fragments{N: 4})

// Traits: all make as many steps as there are updates, in step, and all show a model. Fragments
// have about as many bytes, so steps take alike.
func (Fragments) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Conduct: train.InStep, Models: j.Workers,
		Timeless: true, Elastic: true, Weightless: true, Steady: true, Codec: train.TakesAll, Heeds: along, Refuses: between}
}

var (
	along   = []string{"topology"}
	between = map[string]string{"overlap": "it exchanges between steps"}
)

// Check refuses what is mode reduce with another name, and builds a worker.
func (m Fragments) Check(j *train.Job) error {
	if m.N < 2 {
		return fmt.Errorf(`option "n": want at least 2, not %d`, m.N)
	}
	_, err := m.Part(train.NewRank(j, 0))
	return err
}

// Part makes a worker: a Peer, which sends nothing itself, with a Mean.
func (m Fragments) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, compress.Raw{})
	if err != nil {
		return nil, err
	}
	w := &streamer{Peer: p, agreed: append([]float32(nil), p.X.F()...), gone: make([]float32, len(p.X.F()))}
	w.mean, err = mean.New(r, mean.Options{Bytes: 4*r.Job().Model.Layout().Size()/m.N + 1})
	return p.Part(w), err
}

// streamer is a worker. Its model is that of the Peer.
type streamer struct {
	*train.Peer
	mean         *mean.Mean
	agreed, gone []float32 // what all agree on; how far the worker has gone from it
}

// Move implements train.Mover.
func (w *streamer) Move(ctx context.Context) error {
	if err := w.Gradient(ctx, w.X.F()); err != nil {
		return err
	}
	w.X.Own() // the observer may still read what it was shown
	x := w.X.F()
	w.Descend(x)
	n := w.mean.Buckets()
	f := w.Step() % n
	at := w.mean.Range(f)
	if w.Job().Weightless {
		at = sgd.Range{}
	}
	for i := at.Lo; i < at.Hi; i++ {
		w.gone[i] = w.agreed[i] - x[i]
	}
	if _, err := w.mean.Average(ctx, f, w.gone, n, 0); err != nil {
		return err
	}
	for i := at.Lo; i < at.Hi; i++ {
		w.agreed[i] -= w.gone[i]
		x[i] = w.agreed[i]
	}
	return nil
}

func (w *streamer) Model() wire.Vector { return w.X.Share() }

func (w *streamer) Keep(k *checkpoint.Keeper) {
	k.Vector(checkpoint.Key("agreed", w.ID()), w.agreed)
	w.mean.Keep(k)
}
