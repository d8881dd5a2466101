package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// marked is which checkpoint a shard's state is for, and who is in it.
type marked struct {
	Mark    int
	Workers []int
	Got     map[int]int `json:",omitempty"` // by relay: sums since the run began in this process
}

// invited is who is there when an open run begins.
func (o *Observer) invited() (now Membership) {
	if o.Start != nil {
		now.Step = int(o.Start.Ints[KeyVersion])
	}
	for w := range o.Job.Workers {
		if !o.Job.isAway(w, o.Start) {
			now.Workers = append(now.Workers, w)
		}
	}
	return now
}

// opens notes who is there when an open run begins.
func (o *Observer) opens(m Membership) {
	if o.servers > 0 && !o.Job.Traits().Coordinator { // which knows who is in a checkpoint
		o.marked, o.flows = map[int]marked{}, map[int]flow{}
	}
	m.Epoch, m.Seconds = len(o.Members)+1, o.now().Seconds()
	if len(o.Members) == 0 || !slices.Equal(o.members(), m.Workers) {
		o.changed(m)
	}
}

// changed notes that others are there.
func (o *Observer) changed(m Membership) {
	o.Members = append(o.Members, m)
	if s, ok := o.Sink.(MembersSink); ok {
		s.Members(m)
	}
}

// epoch is that of the present membership.
func (o *Observer) epoch() int { return o.Members[len(o.Members)-1].Epoch }

// came notes that a worker is there.
func (o *Observer) came(w, step int) {
	if !slices.Contains(o.members(), w) {
		all := append(slices.Clone(o.members()), w)
		slices.Sort(all)
		o.changed(Membership{Epoch: len(o.Members) + 1, Step: step, Workers: all, Joined: []int{w}, Seconds: o.now().Seconds()})
	}
}

// went notes that a worker is not.
func (o *Observer) went(l Leave, step int) {
	if there := o.members(); slices.Contains(there, l.Worker) {
		all := slices.DeleteFunc(slices.Clone(there), func(w int) bool { return w == l.Worker })
		o.changed(Membership{Epoch: len(o.Members) + 1, Step: step, Workers: all, Left: []Leave{l}, Seconds: o.now().Seconds()})
	}
}

// visited hears of who comes into an open run, and goes. A new process begins at once,
// unless a server has ended.
func (o *Observer) visited(ctx context.Context, h comm.Host, f comm.Frame, ended map[int]bool) error {
	hd := f.Header
	defer f.Release()
	if hd.Tag == onMoved.Tag() {
		m := onMoved.Open(f)
		switch o.step = max(o.step, m.Word.step); {
		case m.Word.code == rollHere && ended[m.Word.rank]: // behind the news of its death
		case m.Word.code == rollHere:
			o.came(m.Word.rank, m.Word.step)
		default:
			o.went(Leave{Worker: m.Word.rank, Why: fmt.Sprintf("left by plan after update %d", m.Word.step), Planned: true, Residual: math.Sqrt(m.Word.left)}, m.Word.step)
		}
		return o.checkpoint(ctx, h, ended)
	}
	w := int(hd.From)
	if hd.Incarnation == 0 { // the run has begun with it
		return nil
	}
	for r := o.Job.Workers; r < o.Job.World(); r++ {
		if ended[r] {
			ended[w] = true
			return onStart.Send(ctx, o.rank, w, message.Nothing{}, FlagStop)
		}
	}
	if !ended[w] { // before the news of its death
		if err := o.lostGuest(ctx, &comm.PeerError{Rank: w, Lost: true, Cause: "its process has ended, and another one has come"}); err != nil {
			return err
		}
	}
	delete(ended, w)
	o.census.left(o.Job, w, record.StateComputing)
	if err := onStart.Send(ctx, o.rank, w, message.Nothing{}, flagCome); err != nil && !isGone(err) {
		return err
	}
	return nil
}

// lostGuest notes the death of a worker of an open run.
func (o *Observer) lostGuest(ctx context.Context, p *comm.PeerError) error {
	text := fmt.Sprintf("worker %d: %s", p.Rank, p.Cause)
	if !slices.Contains(o.members(), p.Rank) {
		text += "; it took no part"
	}
	o.Dead = append(o.Dead, text)
	o.census.left(o.Job, p.Rank, record.StateDead)
	if o.marked != nil { // servers say anew who is in a checkpoint
		delete(o.states, p.Rank)
	}
	o.went(Leave{Worker: p.Rank, Why: p.Cause}, o.step)
	if err := o.fewer(p); err != nil {
		return err
	}
	return o.without(ctx, p.Rank)
}

// fewer is the error of an open run that too few workers are left of, now that one is gone.
// Where there are servers they count.
func (o *Observer) fewer(p *comm.PeerError) error {
	n := len(o.members())
	switch {
	case n == 0:
		return fmt.Errorf("all workers are gone; the last one: %w", p)
	case o.conduct != nil && !o.conduct.over && n < o.Job.MinWorkers:
		return fmt.Errorf("%d workers are left, and the run goes on with min_workers=%d or more: %w", n, o.Job.MinWorkers, p)
	}
	return nil
}

// relayed takes what a relay has to remember, which is no state of its learner.
func (o *Observer) relayed(from int, st *checkpoint.State) (ok bool, err error) {
	f := flow{kept: st}
	k := checkpoint.Loading(st)
	if ok = k.Record(keyFlow, &f); ok {
		delete(st.Bytes, keyFlow)
		o.flows[from] = f
	}
	return ok, k.Err()
}

// fits says whether what the nodes of the tree keep fits together.
func (o *Observer) fits() bool {
	t := o.Job.tree()
	if t == nil {
		return true
	}
	for rank, b := range t.relays {
		f, ok := o.flows[rank]
		if !ok {
			return false
		}
		for shard, sent := range f.Sent {
			got := o.marked[o.Job.Workers+shard].Got
			if b.parent != servers {
				above, ok := o.flows[b.parent]
				if !ok {
					return false
				}
				got = above.Got[shard]
			}
			if got[rank] != sent {
				return false
			}
		}
	}
	return true
}

// mark takes what a shard's state says beside: which checkpoint it is for.
func (o *Observer) mark(from int, st *checkpoint.State) error {
	m := marked{Mark: -1}
	k := checkpoint.Loading(st)
	if k.Record(keyMarked, &m); k.Err() != nil {
		return k.Err()
	}
	delete(st.Bytes, keyMarked)
	o.marked[from] = m
	return nil
}

// agreed is who is in a checkpoint of an open run: all shards say so, and it is there what
// those workers keep. Nobody where a shard has nothing to keep.
func (o *Observer) agreed(ended map[int]bool) (at []int, ok bool) {
	first := true // no shard is there yet
	for r := o.Job.Workers; r < o.Job.World(); r++ {
		switch m := o.marked[r]; {
		case ended[r]:
		case o.states[r] == nil:
			return nil, false
		case o.over:
			first = false
		case m.Mark != o.wholes, !first && !slices.Equal(m.Workers, at):
			return nil, false
		case first:
			at, first = m.Workers, false
		}
	}
	for _, w := range at {
		if o.states[w] == nil {
			return nil, false
		}
	}
	return at, !first
}

// goOnFrom tells the servers of an open run that a checkpoint is whole, and of whom.
func (o *Observer) goOnFrom(ctx context.Context, ended map[int]bool, at []int, flags message.Flags) error {
	o.wholes++
	var b []byte
	if at != nil {
		var err error
		if b, err = json.Marshal(at); err != nil {
			return err
		}
	}
	for r := o.Job.Workers; r < o.Job.World(); r++ {
		if ended[r] {
			continue
		}
		buf := comm.NewBuffer(len(b))
		copy(buf.B, b)
		if err := onGo.Carry(ctx, o.rank, r, message.Nothing{}, flags, buf); err != nil {
			return err
		}
	}
	return nil
}

// openCheckpoint is checkpoint for an open run.
func (o *Observer) openCheckpoint(ctx context.Context, h comm.Host, ended map[int]bool) error {
	at, ok := o.agreed(ended)
	if !ok {
		return nil
	}
	if o.over {
		o.states = map[int]*checkpoint.State{}
		return o.goOnFrom(ctx, ended, nil, 0)
	}
	if !o.fits() {
		return nil
	}
	next := map[int]*checkpoint.State{} // of those who came meanwhile, and rest until the next mark
	for w := range o.Job.Workers {
		if st := o.states[w]; st != nil && !slices.Contains(at, w) {
			next[w] = st
			delete(o.states, w)
		}
	}
	lead := o.states[o.Job.Workers]
	all, err := o.whole()
	if err != nil {
		return err
	}
	o.states = next
	if lead != nil { // shards may be at others: it is the first that tells of updates, and calls who is due
		all.Ints[KeyVersion] = lead.Ints[KeyVersion]
	}
	for _, f := range o.flows {
		all.Merge(f.kept)
	}
	version := int(all.Ints[KeyVersion])
	if err := o.Sink.Checkpoint(version, all); err != nil {
		return err
	}
	flags := message.Flags(0)
	if o.Job.stopsAtMark(h, version) {
		flags = FlagStop
	}
	return o.goOnFrom(ctx, ended, at, flags)
}
