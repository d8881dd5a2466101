package train

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// assembly is the parameters that were put together last, from the shards'
// answers. Workers of one process that are sent the same versions share them, so
// memory grows with the versions that are read, and not with workers.
type assembly struct {
	mu       sync.Mutex
	versions []uint64 // by shard
	params   Vector
}

// unpacked says whether one server sends all parameters as they lie in memory.
func unpacked(links []*link) bool {
	l := links[0]
	return len(links) == 1 && len(l.shard.parts) == 1 && l.shard.whole.from == 0 && l.in.in.raw
}

var errNoParameters = errors.New("no server has sent parameters")

// assemble is the parameters that links have brought, to be read only, with a
// reference for the caller. They are the server's own, if there is one that sends
// them as they are.
func (c *cores) assemble(links []*link) (Vector, error) {
	if unpacked(links) {
		if f := links[0].fresh[0]; len(f.Body) == 4*links[0].shard.size() {
			if v, ok := received(f); ok {
				return v, nil
			}
		}
	}
	a := &c.latest
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.params.f != nil && slices.EqualFunc(a.versions, links, func(v uint64, l *link) bool { return v == l.version }) {
		return a.params.Share(), nil
	}
	n := 0
	for _, l := range links {
		n += l.shard.size()
	}
	v := NewVector(n)
	for _, l := range links {
		for k, f := range l.fresh {
			if f.Buffer() == nil {
				return v, errNoParameters
			}
			if err := l.in.take(v.f, k, f); err != nil {
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
