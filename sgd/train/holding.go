package train

import (
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// holding is how a worker holds parameters. One keeps none of its own if it can do
// without: from the answer to a push until its next gradient is made it reads what
// all share who compute on that version. See cores.assemble.
type holding interface {
	// take takes part k of a shard's parameters, which has come.
	take(l *link, k int, f comm.Frame) error
	// up makes what has come the parameters, before they are read.
	up() error
	// done gives up what nobody needs once the pushes are encoded.
	done()
}

// copied is a copy of the worker's own, into which parts are decoded as they come.
type copied struct{ *worker }

func (h copied) take(l *link, k int, f comm.Frame) error {
	began := h.times.Start()
	err := l.in.take(h.params.F(), k, f)
	h.times.Decoded(began)
	if err != nil {
		return fmt.Errorf("worker %d, step %d: parameters of server %d: %w", h.rank, h.step, l.id, err)
	}
	return nil
}

func (copied) up() error { return nil }
func (copied) done()     {}

// shared is what all share, to be read only. The server changes parameters that all
// have given up in place.
type shared struct{ *worker }

func (h shared) take(l *link, k int, f comm.Frame) error {
	h.params.Release()
	l.fresh[k].Release()
	l.fresh[k] = f.Share()
	return nil
}

func (h shared) up() (err error) {
	if h.params.F() != nil {
		return nil
	}
	began := h.times.Start()
	h.params, err = h.job.cores.assemble(h.links)
	h.times.Within(began)
	for _, l := range h.links {
		for k := range l.fresh {
			l.fresh[k].Release()
		}
	}
	return err
}

func (h shared) done() { h.params.Release() }

// lasting is shared until newer parameters come: its worker may make a second
// gradient on them.
type lasting struct{ shared }

func (lasting) done() {}
