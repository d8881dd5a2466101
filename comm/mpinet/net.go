//go:build mpi

package mpinet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Net is this process's part of a run.
type Net struct {
	cfg   Config
	world World
	mine  []int // ranks of this process
	owner []int // process of each rank

	carried comm.Carried // set by Run
}

var _ comm.Net = (*Net)(nil)

// New checks the configuration against the job that this process is of; see Start.
// Nets of a process run one after the other, and so in all processes.
func New(c Config) (*Net, error) {
	w, err := Start()
	if err != nil {
		return nil, err
	}
	if err := c.complete(w.Size); err != nil {
		return nil, err
	}
	n := &Net{cfg: c, world: w}
	for p, ranks := range c.Ranks {
		if p == w.Rank {
			n.mine = ranks
		}
	}
	n.owner = c.owners()
	return n, nil
}

// owners is the process of each rank.
func (c *Config) owners() []int {
	size := 0
	for _, ranks := range c.Ranks {
		size += len(ranks)
	}
	owner := make([]int, size)
	for p, ranks := range c.Ranks {
		for _, r := range ranks {
			owner[r] = p
		}
	}
	return owner
}

// Carried is what all processes have handed to MPI, once Run has returned; what MPI
// adds to it is not known. Of a process that others did not hear to the end it is what
// this one knows.
func (n *Net) Carried() comm.Carried { return n.carried }

// run is the state of one Run.
type run struct {
	*Net
	ctx   context.Context
	hosts []*host // by rank; nil: of another process
	pump  *pump
	start time.Time
	first comm.FirstError

	moved chan struct{} // closed when MPI's thread has left the run
	why   error         // that it did before the end

	hello   chan *message
	welcome chan *message
	over    atomic.Bool   // all is said: the pump may end when it has nothing to send
	ended   chan struct{} // closed when all other processes have ended theirs

	mu    sync.Mutex
	gone  []*comm.PeerError // by rank
	heard map[int]comm.Carried
	died  chan struct{} // closed when a rank has failed
	death *comm.PeerError
}

// Run implements comm.Net for the ranks of this process: programs[i] runs as the i-th
// of them. It waits for all other processes first, and at the end until they have ended,
// since mpirun would end them otherwise.
func (n *Net) Run(ctx context.Context, programs []comm.Program) error {
	if len(programs) != len(n.mine) {
		return fmt.Errorf("mpinet: %d programs for %d ranks", len(programs), len(n.mine))
	}
	if !thread.used.TryLock() {
		return errors.New("mpinet: one net of a process runs at a time")
	}
	defer thread.used.Unlock()
	if thread.left {
		return errLeft
	}
	thread.last = false
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{
		Net: n, ctx: ctx, hosts: make([]*host, len(n.owner)), start: time.Now(),
		moved: make(chan struct{}), hello: make(chan *message, n.world.Size), welcome: make(chan *message, 1), ended: make(chan struct{}), died: make(chan struct{}),
		gone: make([]*comm.PeerError, len(n.owner)), heard: map[int]comm.Carried{},
	}
	r.pump = newPump(n.world, n.cfg.QueueBytes, r.take)
	if n.world.Size == 1 {
		close(r.ended)
	}
	for _, rank := range n.mine {
		r.hosts[rank] = newHost(r, rank)
	}
	joined := make(chan struct{})
	thread.do <- func() {
		defer close(r.moved)
		if r.why = r.move(joined); r.why != nil {
			cancel(r.why)
			r.closeBoxes(r.why)
		}
	}
	select {
	case <-r.moved:
	case <-joined:
		if err := r.agree(); err != nil {
			r.first.Add(err)
		} else {
			r.play(programs)
		}
		r.leave()
	}
	r.first.Add(r.why)
	thread.left, thread.last = r.why != nil, r.why == nil && !n.cfg.More
	r.closeBoxes(errEnded)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.heard {
		n.carried.Add(c)
	}
	return r.first.Err()
}

func (r *run) closeBoxes(err error) {
	for _, h := range r.hosts {
		if h != nil {
			h.Box.Close(err)
		}
	}
}

// move is what MPI's thread does: it meets the others, and then moves messages until all
// is said.
func (r *run) move(joined chan<- struct{}) error {
	defer r.pump.close()
	here := false
	if err := r.pump.join(func() { here = true }); err != nil {
		return err
	}
	began := time.Now()
	if err := r.pump.loop(func() bool { return here || r.ctx.Err() != nil || time.Since(began) > r.cfg.JoinTimeout }); err != nil {
		return err
	}
	switch {
	case here:
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	default:
		return &MissingError{r.cfg.JoinTimeout}
	}
	if err := r.pump.listen(); err != nil {
		return err
	}
	close(joined)
	if err := r.pump.loop(func() bool { return r.over.Load() && r.pump.idle() }); err != nil {
		return err
	}
	if r.pump.folding > 0 { // a rank has failed, and MPI cannot take an all-reduce back
		return errAbandoned
	}
	return r.pump.leave()
}

// errAbandoned is the end of a run that was cancelled, or in which a rank has failed, with
// messages under way. It explains nothing: who cancelled or failed knows why.
var errAbandoned = fmt.Errorf("mpinet: messages of the run are under way: %w", context.Canceled)

// grace is how long the processes of a cancelled run are waited for.
const grace = time.Second

// agree compares what the processes were started for.
func (r *run) agree() error {
	late := time.NewTimer(r.cfg.JoinTimeout)
	defer late.Stop()
	hear := func(from <-chan *message) (*message, error) {
		select {
		case m := <-from:
			return m, nil
		case <-r.moved:
			return nil, r.why
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		case <-late.C:
			return nil, &MissingError{r.cfg.JoinTimeout}
		}
	}
	own := append([]comm.Field{{Name: "run", Value: fmt.Sprintf("%016x", r.cfg.Run)}, {Name: "ranks of processes", Value: fmt.Sprint(r.cfg.Ranks)}}, r.cfg.Identity...)
	if r.world.Rank != 0 {
		text, err := json.Marshal(own)
		if err != nil {
			return err
		}
		r.pump.tell(&message{kind: msgHello, process: 0, text: text})
		m, err := hear(r.welcome)
		if err != nil || len(m.text) == 0 {
			return err
		}
		differ := new(comm.MismatchError)
		if err := json.Unmarshal(m.text, differ); err != nil {
			return err
		}
		return differ
	}
	var differ *comm.MismatchError
	for range r.world.Size - 1 {
		m, err := hear(r.hello)
		if err != nil {
			return err
		}
		var theirs []comm.Field
		if err := json.Unmarshal(m.text, &theirs); err != nil {
			return fmt.Errorf("mpinet: process %d says what it was started for in other words, so it is another version: %w", m.process, err)
		}
		if fields := comm.Differences(own, theirs); len(fields) > 0 && differ == nil {
			differ = &comm.MismatchError{Ranks: []int{m.process}, Fields: fields}
		}
	}
	var text []byte
	if differ != nil {
		var err error
		if text, err = json.Marshal(differ); err != nil {
			return err
		}
	}
	r.tellAll(message{kind: msgWelcome, text: text})
	if differ != nil {
		return differ
	}
	return nil
}

// tellAll tells every other process.
func (r *run) tellAll(m message) {
	for p := range r.world.Size {
		if p != r.world.Rank {
			one := m
			one.process = p
			r.pump.tell(&one)
		}
	}
}

// play runs the programs to their end.
func (r *run) play(programs []comm.Program) {
	for i, rank := range r.mine {
		r.hosts[rank].Go("main", programs[i])
	}
	var wg sync.WaitGroup
	for _, rank := range r.mine {
		h := r.hosts[rank]
		wg.Go(func() {
			err := h.Wait()
			r.first.Add(err)
			m := message{kind: msgBye, rank: rank}
			if err != nil {
				m.kind, m.text = msgAbort, []byte(err.Error())
			}
			r.tellAll(m)
			r.take(&m)
		})
	}
	wg.Wait()
}

// leave says that nothing more comes, and waits until the others have said so and MPI's
// thread is done.
func (r *run) leave() {
	r.pump.mu.Lock()
	sent := r.pump.sent
	r.pump.mu.Unlock()
	sent.Wire += uint64((r.world.Size - 1) * (headBody + carriedSize))
	r.mu.Lock()
	r.heard[r.world.Rank] = sent
	r.mu.Unlock()
	r.tellAll(message{kind: msgEnd, text: appendCarried(nil, sent)})
	late := time.NewTimer(r.cfg.Deadline)
	defer late.Stop()
	cancelled := r.ctx.Done()
	for done := r.ended; done != nil; {
		select {
		case <-done:
			done = nil
		case <-r.moved:
			return
		case <-cancelled:
			cancelled = nil
			late.Reset(grace)
		case <-late.C:
			_ = r.pump.fail(errAbandoned)
			rouse()
			<-r.moved
			return
		}
	}
	r.over.Store(true)
	rouse()
	<-r.moved
}

// take hears a message, on MPI's thread.
func (r *run) take(m *message) {
	switch m.kind {
	case msgFrame:
		to := int(m.frame.Header.To)
		if to < 0 || to >= len(r.hosts) || r.hosts[to] == nil {
			_ = r.pump.fail(fmt.Errorf("mpinet: a frame for rank %d came to process %d", to, r.world.Rank))
			return
		}
		r.hosts[to].Box.Put(m.frame)
	case msgBye, msgAbort:
		e := &comm.PeerError{Rank: m.rank, Cause: "has finished", Ended: m.kind == msgBye}
		if !e.Ended {
			e.Cause = string(m.text)
		}
		r.markGone(e)
	case msgHello:
		r.hello <- m
	case msgWelcome:
		r.welcome <- m
	case msgEnd:
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, known := r.heard[m.process]; known {
			return
		}
		r.heard[m.process] = parseCarried(m.text)
		others := len(r.heard)
		if _, own := r.heard[r.world.Rank]; own {
			others--
		}
		if others == r.world.Size-1 {
			close(r.ended)
		}
	}
}

// markGone tells every rank of this process, once, that a rank has ended.
func (r *run) markGone(e *comm.PeerError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Rank < 0 || e.Rank >= len(r.gone) || r.gone[e.Rank] != nil {
		return
	}
	r.gone[e.Rank] = e
	if !e.Ended && r.death == nil {
		r.death = e
		close(r.died)
	}
	for _, h := range r.hosts {
		if h != nil && h.Rank() != e.Rank {
			h.Box.Gone(e, e.Ended)
		}
	}
}

// goneRank is how a rank has ended; nil: it has not.
func (r *run) goneRank(rank int) *comm.PeerError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone[rank]
}
