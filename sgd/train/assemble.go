package train

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// assembly is the parameters that were put together last, from the shards'
// answers. Workers of one process that are sent the same versions share them, so
// memory grows with the versions that are read, and not with workers.
type assembly struct {
	mu       sync.Mutex
	versions []uint64 // by shard
	params   wire.Vector
}

// unpacked says whether one server sends all parameters as they lie in memory.
func unpacked(links []*link) bool {
	l := links[0]
	return len(links) == 1 && len(l.shard.Parts) == 1 && l.shard.Whole.From == 0 && l.in.in.Raw
}

// size is the number of all parameters.
func size(links []*link) (n int) {
	for _, l := range links {
		n += l.shard.Size()
	}
	return n
}

// together is the parameters that links have brought if they lie side by side: servers
// without a barrier make new ones in the memory of a gradient, each in its part of it.
func together(links []*link) (v wire.Vector, ok bool) {
	var all *comm.Buffer
	for _, l := range links {
		for k, f := range l.fresh {
			pt := l.shard.Parts[k]
			if pt.Size == 0 {
				continue
			}
			if f.Buffer() == nil || !l.in.in.Raw || pt.From < 0 || len(f.Body) != 4*pt.Size {
				return v, false
			}
			if all == nil {
				all = f.Buffer().Of()
			}
			if all == nil || all != f.Buffer().Of() || len(all.B) < 4*(pt.From+pt.Size) || &all.B[4*pt.From] != &f.Body[0] {
				return v, false
			}
		}
	}
	if all == nil || len(all.B) != 4*size(links) {
		return v, false
	}
	return wire.Aliased(all)
}

var errNoParameters = errors.New("no server has sent parameters")

// assemble is the parameters that links have brought, to be read only, with a
// reference for the caller. They are the server's own, if there is one that sends
// them as they are.
func (c *cores) assemble(links []*link) (wire.Vector, error) {
	if unpacked(links) {
		if f := links[0].fresh[0]; len(f.Body) == 4*links[0].shard.Size() {
			if v, ok := wire.Received(f); ok {
				return v, nil
			}
		}
	}
	if v, ok := together(links); ok {
		return v, nil
	}
	a := &c.latest
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.params.F() != nil && slices.EqualFunc(a.versions, links, func(v uint64, l *link) bool { return v == l.version }) {
		return a.params.Share(), nil
	}
	v := wire.NewVector(size(links))
	for _, l := range links {
		for k, f := range l.fresh {
			if f.Buffer() == nil {
				return v, errNoParameters
			}
			if err := l.in.take(v.F(), k, f); err != nil {
				return v, fmt.Errorf("parameters of server %d: %w", l.id, err)
			}
		}
	}
	a.params.Release()
	a.params, a.versions = v, a.versions[:0]
	for _, l := range links {
		a.versions = append(a.versions, l.version)
	}
	return v.Share(), nil
}
