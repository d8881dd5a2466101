package train

import (
	"slices"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
)

// near is what a worker that gossips knows of the others: who of them is there. Several of
// its activities hear of deaths, which count at once. Who comes into an open run, and who
// leaves by plan, counts from the worker's next step on.
type near struct {
	mu   sync.Mutex
	of   map[int]other // nothing is known of others: they are there
	news []callWord    // of the observer, for the next step
	from int           // epoch of membership before which news is old
	life uint32        // of the own process, as others know it
	away bool          // the worker itself has left, and may come back
}

// other is what is known of one worker.
type other struct {
	life uint32 // incarnation of its process
	dead uint32 // processes before this one have died
	away bool   // it has left by plan, or has yet to come
	why  *comm.PeerError
}

func (o other) died() bool { return o.life < o.dead }
func (o other) lost() bool { return o.away || o.died() }

// died notes that a process of a worker has died; another one may have come since.
func (n *near) died(p *comm.PeerError) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.of[p.Rank]
	o.dead, o.why = max(o.dead, p.Incarnation+1), p
	n.set(p.Rank, o)
}

// death is that of a worker's process; nil: it lives, though it may be leaving.
func (n *near) death(rank int) *comm.PeerError {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o := n.of[rank]; o.died() {
		return o.why
	}
	return nil
}

// leaves notes that a worker is not there; nothing is under way to it, or will be.
func (n *near) leaves(rank int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.of[rank]
	o.away = true
	n.set(rank, o)
}

// comes notes that a process of a worker is there, unless it is known to have died.
func (n *near) comes(rank int, life uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.of[rank]
	o.life, o.away = max(o.life, life), false
	n.set(rank, o)
}

func (n *near) set(rank int, o other) {
	if n.of == nil {
		n.of = map[int]other{}
	}
	n.of[rank] = o
}

// meets notes who is there, of so many workers, in an epoch of membership.
func (n *near) meets(there *present, workers int) {
	for w := range workers {
		if life, ok := there.Lives[w]; ok {
			n.comes(w, life)
		} else {
			n.leaves(w)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.from, n.life = there.Epoch, there.Life
}

// present is who is there in an epoch of membership, and the incarnation of who is told.
type present struct {
	Epoch int
	Life  uint32
	Lives map[int]uint32 // incarnations of those who are there
}

// hears takes what the observer says of another worker, or of this one.
func (n *near) hears(c callWord) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news = append(n.news, c)
}

// heard is the news since it was last asked for.
func (n *near) heard() (news []callWord) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.news {
		if c.updates >= n.from {
			news = append(news, c)
		}
	}
	n.news = nil
	return news
}

// lifeOf is the incarnation of a worker's process.
func (n *near) lifeOf(rank int) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[rank].life
}

// self is the worker's own incarnation, and whether it has left.
func (n *near) self() (life uint32, away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life, n.away
}

// goes notes that the worker itself leaves, or is there again.
func (n *near) goes(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
}

// Lost notes that a worker has died, if that is what err says and the run goes on
// without it. Else it returns err, also where a death is what this rank itself, in
// another activity, failed of.
func (p *Peer) Lost(err error) error {
	gone, ok := err.(*comm.PeerError) // not errors.As: what is wrapped is a failure of this rank
	if !ok || gone.Ended && !p.job.open() || gone.Rank >= p.job.Workers || !p.job.Traits().Outlives {
		return err
	}
	p.near.died(gone)
	return nil
}

// IsLost says whether a worker is not there: it has died, or left.
func (p *Peer) IsLost(rank int) bool {
	p.near.mu.Lock()
	defer p.near.mu.Unlock()
	return p.near.of[rank].lost()
}

// graph is along whose edges workers hear each other.
func (p *Peer) graph() collective.Graph {
	if p.Along != nil {
		return p.Along
	}
	return p.job.Graph
}

// Edges are whom the worker hears and tells in a step, by its graph, without those who are
// not there. In an open run it is the graph of those who are, as far as the worker knows: it
// hangs together whoever is gone.
func (p *Peer) Edges(step int) collective.Mix {
	p.near.mu.Lock()
	defer p.near.mu.Unlock()
	lost := func(rank int) bool { return rank != p.rank && p.near.of[rank].lost() }
	switch {
	case len(p.near.of) == 0:
		return p.graph().Mix(p.rank, p.job.Workers, step)
	case !p.job.open():
		return p.graph().Mix(p.rank, p.job.Workers, step).Without(lost)
	}
	var there []int
	for w := range p.job.Workers {
		if !lost(w) {
			there = append(there, w)
		}
	}
	return p.graph().Mix(slices.Index(there, p.rank), len(there), step).Among(there)
}
