package train

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// MembersSink is a Sink that hears who takes part in an elastic run, whenever that
// changes, and at its begin.
type MembersSink interface{ Members(Membership) }

// begins is who takes part at first: all workers but those that join later, or those of the
// checkpoint that the run goes on from. Of the others who does not join has ended.
func (o *Observer) begins(ended map[int]bool) Membership {
	now := Membership{Epoch: 1}
	plan, _ := o.Job.moves() // Check tells what is wrong
	away := o.Job.away()
	for w := range o.Job.Workers {
		if !away[w] {
			now.Workers = append(now.Workers, w)
		}
	}
	if n := len(o.Members); n > 0 {
		now = o.Members[n-1]
		for w := range o.Job.Workers {
			if !slices.Contains(now.Workers, w) && !now.expects(plan, w) {
				ended[w] = true
			}
		}
	}
	return now
}

// members is who takes part now.
func (o *Observer) members() []int {
	if n := len(o.Members); n > 0 {
		return o.Members[n-1].Workers
	}
	return nil
}

// absent says of a worker that it takes no part now, and may join.
func (o *Observer) absent(rank int) bool {
	return o.Job.Elastic && rank < o.Job.Workers && !slices.Contains(o.members(), rank)
}

// keepMembers puts the memberships of an elastic run into its state.
func (o *Observer) keepMembers(all *checkpoint.State) {
	if o.Job.Elastic {
		checkpoint.Saving(all).Record(keyMembers, o.Members)
	}
}

// loadMembers reads them from the state that the run begins from.
func (o *Observer) loadMembers() error {
	if !o.Job.Elastic || o.Start == nil {
		return nil
	}
	k := checkpoint.Loading(o.Start)
	k.Record(keyMembers, &o.Members)
	if k.Err() == nil && len(o.members()) == 0 {
		return fmt.Errorf("the checkpoint does not say who took part: it is of a run with elastic=none")
	}
	return k.Err()
}

// isVoid says whether a frame is of an epoch of membership that was called off.
func (o *Observer) isVoid(h *comm.Header) bool {
	n := len(o.Members)
	if n == 0 || !h.Before(uint32(o.Members[n-1].Epoch)) {
		return false
	}
	switch h.Tag {
	case onFinal.Tag(), onWorker.Tag():
		return false
	}
	return true
}

// mourn hands the word that a worker is gone on to the registrar, or heeds it where that has ended.
func (o *Observer) mourn(ctx context.Context, h comm.Host, p *comm.PeerError, ended map[int]bool) error {
	if !o.closed {
		b, err := json.Marshal(p)
		if err != nil {
			return err
		}
		buf := comm.NewBuffer(len(b))
		copy(buf.B, b)
		o.mourned = append(o.mourned, p)
		return onRoll.Carry(ctx, o.rank, o.rank.rank, rollWord{code: rollGone, rank: p.Rank}, 0, buf)
	}
	if !ended[p.Rank] && p.Incarnation >= o.lives[p.Rank] {
		ended[p.Rank] = true
		o.census.left(o.Job, p.Rank, record.StateDead)
		o.Dead = append(o.Dead, fmt.Sprintf("worker %d: %s", p.Rank, p.Cause))
	}
	return o.checkpoint(ctx, h, ended)
}

// rolled heeds what the registrar has decided: who has left has ended, and what was told of
// updates that were called off is forgotten.
func (o *Observer) rolled(ctx context.Context, h comm.Host, mail message.Mail[rollWord], ended map[int]bool) error {
	if mail.Word.code == rollEnd {
		o.closed = true
		for _, p := range o.mourned {
			if err := o.mourn(ctx, h, p, ended); err != nil {
				return err
			}
		}
		return nil
	}
	if mail.Word.code == rollAbsent {
		var l Leave
		if err := json.Unmarshal(mail.Body, &l); err != nil {
			return err
		}
		ended[l.Worker] = true
		o.census.left(o.Job, l.Worker, record.StateDead)
		o.Dead = append(o.Dead, fmt.Sprintf("worker %d: %s; it took no part", l.Worker, l.Why))
		return nil
	}
	var m Membership
	if err := json.Unmarshal(mail.Body, &m); err != nil {
		return err
	}
	for _, l := range m.Left {
		if ended[l.Worker] || l.Planned { // who leaves by plan reports
			continue
		}
		ended[l.Worker] = true
		o.census.left(o.Job, l.Worker, record.StateDead)
		o.Dead = append(o.Dead, fmt.Sprintf("worker %d: %s; the others go on from step %d without it", l.Worker, l.Why, m.Step))
	}
	for _, w := range m.Joined {
		delete(ended, w)
		o.census.left(o.Job, w, record.StateComputing)
	}
	if n := len(o.Members); n == 0 || o.Members[n-1].Epoch < m.Epoch {
		o.Members = append(o.Members, m)
		if s, ok := o.Sink.(MembersSink); ok {
			s.Members(m)
		}
	}
	o.held = slices.DeleteFunc(o.held, func(p record.Progress) bool { return p.Step > m.Step })
	o.told.forget(m.Step)
	clear(o.states)
	clear(o.marks)
	if o.conduct != nil {
		o.conduct.anew()
	}
	if o.beyond = 0; o.defers() {
		if err := o.passes(ctx, m.Step+1); err != nil {
			return err
		}
	}
	for _, k := range o.inOrder() {
		if e := o.parts[k]; !k.last && k.version <= m.Step && (o.conduct != nil || e.params.F() != nil && o.servers == 0) {
			if err := o.complete(ctx, k, e); err != nil {
				return err
			}
			continue
		}
		delete(o.parts, k)
	}
	return nil
}

// heard takes a report of progress. That of the last update of an elastic run is held
// back, as the update may yet be called off; of more where workers keep apart.
func (o *Observer) heard(p record.Progress) {
	if !o.Job.Elastic {
		o.progress(p)
		return
	}
	if o.conduct == nil {
		o.release(math.MaxInt)
	}
	p.World = len(o.members())
	if o.step = max(o.step, p.Step); o.Job.open() {
		o.progress(p)
		return
	}
	gone := o.crossed.beside(func(w int) bool { return slices.Contains(o.members(), w) })
	p.BytesUp, p.BytesDown = p.BytesUp+gone.up, p.BytesDown+gone.down
	o.held = append(o.held, p)
}

// defers says that evaluations are judged when their updates will not be called off. With
// servers a server is ahead of the workers in its last update, who may have to go back
// behind it; workers that keep apart are some steps from one another.
func (o *Observer) defers() bool {
	return o.Job.inEpochs() && (o.servers > 0 || o.conduct != nil)
}

// passes hears that updates before this one will not be called off, where that is waited for:
// evaluations of them that are whole are judged.
func (o *Observer) passes(ctx context.Context, update int) error {
	if !o.defers() || update <= o.beyond {
		return nil
	}
	o.beyond = update
	o.release(update - 1)
	for _, k := range o.inOrder() {
		if e := o.parts[k]; !k.last && k.version < update && o.isWhole(e) {
			if err := o.complete(ctx, k, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder are the evaluations that wait for something, the last one first.
func (o *Observer) inOrder() []evalKey {
	return slices.SortedFunc(maps.Keys(o.parts), func(a, b evalKey) int { return a.version - b.version })
}

// release hands on what was held back of progress, up to an update.
func (o *Observer) release(update int) {
	for len(o.held) > 0 && o.held[0].Step <= update {
		o.progress(o.held[0])
		o.held = o.held[1:]
	}
}
