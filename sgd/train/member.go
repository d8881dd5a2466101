package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// member is a worker of an elastic run, or a server. In every epoch of membership it is a rank of its
// own, with a part made for the number of members, that goes on from what the one before
// it held at the step at which the epoch begins.
type member struct {
	job  *Job
	rank int // in the run
	self *Rank
	h    comm.Elastic
	plan []move
	held [2]checkpoint.Held // before the present step, and before the one before

	now  *Rank // in the present epoch, or the last
	part Part

	mu     sync.Mutex
	epoch  int // present
	over   int // the last one that was called off; -1: the run was over before it began
	cancel context.CancelCauseFunc
	missed []int // in the present epoch
}

// errFixed ends elastic runs on nets that know no epochs.
var errFixed = errors.New("elastic=on: this net cannot change who takes part while it runs; set elastic=none, and emulate=false")

// outError is the end of a worker that the others go on without: its link to another is
// lost.
type outError struct {
	worker int
	peer   comm.PeerError
}

func (e *outError) Error() string {
	return fmt.Sprintf("worker %d is no member of the run any more: %s", e.worker, e.peer.Cause)
}

func (e *outError) Unwrap() error { return &e.peer }

func newMember(j *Job, rank int) *member {
	plan, _ := j.moves() // Check tells what is wrong
	return &member{job: j, rank: rank, self: NewRank(j, rank), plan: plan}
}

// run is the member's program.
func (m *member) run(ctx context.Context, h comm.Host) error {
	var ok bool
	if m.h, ok = h.(comm.Elastic); !ok {
		return errFixed
	}
	m.self.h = h
	start, err := m.starts(ctx)
	if err != nil || m.over < 0 {
		return err
	}
	h.Go("membership", m.listen)
	err = m.member(ctx, start)
	if quit := onVoid.Wake(ctx, m.self, rollWord{code: rollEnd}, 0); err == nil {
		err = quit
	}
	return err
}

// starts says that the worker is there, which is news of one that comes back, and waits for
// the word to begin. A run that is over begins with nobody.
func (m *member) starts(ctx context.Context) (*checkpoint.State, error) {
	err := onRoll.Send(ctx, m.self, m.job.Observer(), rollWord{code: rollHere}, 0)
	if err != nil {
		return nil, err
	}
	start, _, err := m.self.told(ctx)
	if p := new(comm.PeerError); errors.As(err, &p) && p.Ended {
		m.over = -1
		return nil, nil
	}
	return start, err
}

// listen hears which epochs are called off. Nobody else waits for any rank with that
// tag, so what it hears of others' ends is nothing to it: the observer decides.
func (m *member) listen(ctx context.Context, _ comm.Host) error {
	for {
		mail, err := onVoid.Recv(comm.Idle(ctx), m.self, comm.AnyRank)
		if lost, ok := err.(*comm.PeerError); ok && (lost.Rank < m.job.Workers || m.works() && lost.Rank != m.job.Observer()) { // not wrapped: then it is why this rank ends
			if err := m.heard(ctx, lost); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		mail.Release()
		if mail.From == m.rank {
			return nil
		}
		m.mu.Lock()
		m.over = max(m.over, mail.Word.epoch)
		if m.epoch <= m.over && m.cancel != nil {
			m.cancel(errVoid)
		}
		m.mu.Unlock()
		m.h.Rouse()
	}
}

// heard hears that a rank is gone, in place of whoever waits for any rank. Those are
// servers: workers wait for each other by name. A worker that hears it of a server may be
// the one that is cut off: the observer knows.
func (m *member) heard(ctx context.Context, p *comm.PeerError) error {
	if m.works() && p.Rank < m.job.Workers {
		return nil
	}
	return m.misses(ctx, p)
}

// misses tells the observer, once, which member cannot be reached: it may be a link that is
// cut, or news of before.
func (m *member) misses(ctx context.Context, p *comm.PeerError) error {
	m.mu.Lock()
	epoch, known := m.epoch, p.Ended || slices.Contains(m.missed, p.Rank)
	m.missed = append(m.missed, p.Rank)
	m.mu.Unlock()
	if known {
		return nil
	}
	return onRoll.Send(ctx, m.self, m.job.Observer(), rollWord{code: rollMisses, epoch: epoch, step: int(p.Incarnation), rank: p.Rank}, 0)
}

// begin is a context for an epoch, which ends when that is called off.
func (m *member) begin(ctx context.Context, epoch int) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missed = nil
	if m.epoch, m.cancel = epoch, cancel; epoch <= m.over {
		cancel(errVoid)
		m.h.Rouse()
	}
	return ctx, func() { cancel(nil) }
}

// member goes from epoch to epoch.
func (m *member) member(ctx context.Context, start *checkpoint.State) error {
	for {
		mail, err := onForm.Recv(comm.Idle(ctx), m.self, m.job.Observer())
		if err != nil {
			return err
		}
		switch mail.Word.code {
		case rollEnd:
			mail.Release()
			return m.final(ctx)
		case rollOut:
			why, peer := string(mail.Body), mail.Word.rank
			mail.Release()
			if why == "" {
				return nil
			}
			return &outError{m.rank, comm.PeerError{Rank: peer, Cause: why, Lost: true}}
		}
		var of Membership
		err = json.Unmarshal(mail.Body, &of)
		mail.Release()
		if err != nil {
			return fmt.Errorf("membership: %w", err)
		}
		leaves, err := m.serve(ctx, of, start)
		if start = nil; err != nil {
			return err
		}
		if !leaves {
			continue
		}
		stays := of.expects(m.plan, m.rank) // to come back
		if !stays {
			if err := m.final(ctx); err != nil {
				return err
			}
		}
		if err := onRoll.Send(ctx, m.self, m.job.Observer(), rollWord{code: rollLeaves, epoch: of.Epoch, step: m.now.step, left: m.held[0].Left}, 0); err != nil || !stays {
			return err
		}
	}
}

// serve is the member's part in an epoch.
func (m *member) serve(ctx context.Context, of Membership, start *checkpoint.State) (leaves bool, err error) {
	epoch, end := m.begin(ctx, of.Epoch)
	defer end()
	m.h.Enter(uint32(of.Epoch))
	v := newView(epoch, m, of)
	healed, err := m.heal(epoch, v, of)
	if context.Cause(epoch) == errVoid && err != nil {
		return false, onRoll.Send(ctx, m.self, m.job.Observer(), rollWord{code: rollEmpty, epoch: of.Epoch}, 0)
	}
	if err == nil {
		err = m.join(of, start, healed)
	}
	if err != nil {
		return false, err
	}
	m.now.h = v
	b, ok := m.part.(besides)
	m.now.times.Begin(v, ok && b.Beside())
	if err = m.heals(epoch, of); err == nil {
		err = m.part.Run(epoch)
	}
	void := context.Cause(epoch) == errVoid
	if err != nil {
		m.cancel(errVoid) // what goes on beside it ends too
		m.h.Rouse()
	}
	if v.settle(ctx); ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	switch {
	case errors.Is(err, errLeaves):
		return true, nil
	case err != nil && !void && !errors.Is(err, errRests):
		return false, err
	}
	at := rollWord{code: rollRested, epoch: of.Epoch}
	switch {
	case err == nil:
		at.code = rollDone
		if err := m.hold(m.now, m.part); err != nil {
			return false, err
		}
	case void && m.works():
		m.now.stats.voided += uint64(max(1, m.now.step-m.held[0].Step))
	}
	at.step, at.before = m.held[0].Step, m.held[0].Step
	if m.held[1].State != nil {
		at.before = m.held[1].Step
	}
	return false, onRoll.Send(ctx, m.self, m.job.Observer(), at, 0)
}

// join makes the member's part in an epoch, as it was before the epoch's first step:
// from what the run begins from, from what healed it, or from what it held.
func (m *member) join(of Membership, start, healed *checkpoint.State) error {
	v, err := m.job.as(of)
	if err != nil {
		return err
	}
	at := of.Step
	k := checkpoint.Loading(start)
	switch {
	case healed != nil:
		k.Of, k.Anew = healed, true
	case start != nil:
		at = int(start.Ints[KeyVersion])
	default:
		if k.Of, err = m.before(of); err != nil {
			return err
		}
		k.Own = true
		// Receivers are numbered by sender, and who has come knows nothing of before.
		k.Anew = compress.KeepsReceiver(m.job.Codec) || len(of.Joined) > 0
	}
	r, p, err := m.take(v, of, at, *k)
	if err != nil && k.Own && !k.Anew {
		k.Anew = true // what its codecs kept fits no other number of workers
		r, p, err = m.take(v, of, at, *k)
	}
	if err != nil {
		return fmt.Errorf("worker %d: %w", m.rank, err)
	}
	m.counts(r, at, healed != nil)
	if k.Own && k.Anew && k.Of != nil {
		r.stats.lost += m.heldAt(at).Left
	}
	if healed != nil {
		m.held = [2]checkpoint.Held{}
	}
	m.now, m.part = r, p
	return m.hold(r, p)
}

// take makes a part for the epoch that takes up what k has; nothing: it begins from scratch.
func (m *member) take(v *Job, of Membership, at int, k checkpoint.Keeper) (*Rank, Part, error) {
	r := NewRank(v, of.number(m.job, m.rank))
	r.member, r.h, r.again = m, m.h, k.Own || k.Anew
	if was := m.now; was != nil {
		r.seat.at, r.stats = was.seat.at, was.stats
	}
	p, err := v.Mode.Part(r)
	if err != nil || k.Of == nil {
		return r, p, err
	}
	if k.Own && m.works() { // what servers have is named by shard
		k.Of = k.Of.Renamed(m.heldAt(of.Step).Rank, r.rank)
	}
	r.step = at
	if m.keeps() {
		p.Keep(&k)
	}
	r.start, r.earlier = k.Of, r.step
	return r, p, k.Err()
}

// counts goes on with what the member counted up to now: steps that are made again, and
// those that were made without it.
func (m *member) counts(r *Rank, at int, came bool) {
	was := m.now
	switch {
	case came && was == nil:
		r.stats = stats{missed: uint64(at)}
	case came:
		r.stats = was.stats
		r.stats.missed += uint64(at - was.step)
	case was != nil && m.works():
		r.stats.voided = was.stats.voided
		if held := m.held[0].Step; held > at { // whole steps, too
			r.stats.voided += uint64(held - at)
		}
	}
}

// before is what the member held before the first step of an epoch; nil: it begins from
// scratch.
func (m *member) before(of Membership) (*checkpoint.State, error) {
	if h := m.heldAt(of.Step); h != nil {
		return h.State, nil
	}
	if of.Step == 0 {
		return nil, nil
	}
	return nil, fmt.Errorf("worker %d cannot go on before step %d: mode %s claims to be Elastic and has not called Rank.Boundary there", m.rank, of.Step, Modes.Spec(m.job.Mode))
}

func (m *member) heldAt(step int) *checkpoint.Held {
	for i := range m.held {
		if h := &m.held[i]; h.State != nil && h.Step == step {
			return h
		}
	}
	return nil
}

// hold keeps what the rank's part is at a step, and what it was before.
func (m *member) hold(r *Rank, p Part) error {
	if m.held[0].State != nil && m.held[0].Step < r.step {
		m.held[0], m.held[1] = m.held[1], m.held[0]
	}
	k := &checkpoint.Keeper{Of: checkpoint.New(), Own: true}
	if m.keeps() {
		p.Keep(k)
	}
	k.Int(KeyVersion, &r.step)
	if k.Err() != nil {
		return k.Err()
	}
	m.held[0].Hold(r.step, r.rank, k.Of)
	m.held[0].Left = k.Left
	return nil
}

// works says that the member is a worker.
func (m *member) works() bool { return m.rank < m.job.Workers }

// keeps says whether the member has more to go on from than the number of steps: without
// weights workers have no more.
func (m *member) keeps() bool { return !m.job.Weightless || !m.works() }

// final tells the report of a member at the end of its part; of one that never took part
// there is nothing to tell.
func (m *member) final(ctx context.Context) error {
	r := m.now
	if r == nil {
		m.self.times.Begin(m.h, false)
		return tellFinal(ctx, m.self, record.RankReport{Rank: m.rank, Role: roleOf(m.self)})
	}
	rep := record.RankReport{Rank: m.rank, Role: roleOf(r)}
	if m.works() {
		rep.Steps, rep.Zeroed, rep.Voided = r.step-int(r.stats.missed), r.stats.zeroed, r.stats.voided
		rep.Residual = math.Sqrt(r.stats.lost)
	}
	m.part.Final(&rep)
	return tellFinal(ctx, r, rep)
}
