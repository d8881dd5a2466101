package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// registrar decides who is a member of an elastic run. It is an activity of the
// observer's rank, which holds all leases, so that no evaluation holds it up. When a
// member is gone it calls the epoch off; for one that leaves by plan the others rest by
// themselves. Once those who are left have come to rest, the next epoch begins at the
// last boundary that all of them have come to: no two are more than one apart, and each
// goes back to what it held there.
type registrar struct {
	job  *Job
	rank *Rank // the observer's
	now  Membership

	void    bool // the present epoch is called off
	plan    []move
	waiting map[int]bool   // workers that are no members and join later
	came    map[int]bool   // those of them who join as soon as may be: their process is new
	lives   map[int]uint32 // incarnations of those who have come

	rested map[int]rested // by worker
	missed [][2]int       // who says so, and of whom: they cannot reach each other
	left   []Leave        // since the epoch began
	over   bool
}

// rested is where a member has come to rest.
type rested struct {
	step, before int
	code         uint8
}

func newRegistrar(o *Rank, now Membership) *registrar {
	plan, _ := o.job.moves()        // Check tells what is wrong
	now.Joined, now.Anew = nil, nil // they have come before
	return &registrar{job: o.job, rank: o, now: now, plan: plan, waiting: map[int]bool{}, came: map[int]bool{}, lives: map[int]uint32{}, rested: map[int]rested{}}
}

// run is the activity.
func (d *registrar) run(ctx context.Context, _ comm.Host) error {
	for w := range d.job.Workers {
		switch {
		case slices.Contains(d.now.Workers, w):
		case d.now.expects(d.plan, w):
			d.waiting[w] = true
		default:
			if err := d.out(ctx, w, w, ""); err != nil {
				return err
			}
		}
	}
	err := d.form(ctx)
	for err == nil && !d.over {
		if err = d.hear(ctx); err == nil {
			err = d.settle(ctx)
		}
	}
	if err != nil { // wrapped, so that nobody takes it for the news of a death
		return fmt.Errorf("membership: %w", err)
	}
	return nil
}

// hear takes the next word on somebody.
func (d *registrar) hear(ctx context.Context) error {
	mail, err := onRoll.Recv(comm.Idle(ctx), d.rank, comm.AnyRank)
	if gone := new(comm.PeerError); errors.As(err, &gone) {
		return d.gone(ctx, gone)
	}
	if err != nil {
		return err
	}
	defer mail.Release()
	w := mail.Word
	if mail.From == d.job.Observer() {
		gone := &comm.PeerError{}
		if err := json.Unmarshal(mail.Body, gone); err != nil {
			return err
		}
		return d.gone(ctx, gone)
	}
	if w.code == rollHere {
		return d.here(ctx, mail.From, mail.Header.Incarnation)
	}
	if w.epoch != d.now.Epoch || d.now.number(d.job, mail.From) < 0 {
		return nil // of before
	}
	switch w.code {
	case rollRested, rollDone, rollEmpty:
		d.rested[mail.From] = rested{w.step, w.before, w.code}
	case rollLeaves:
		d.waiting[mail.From] = d.now.expects(d.plan, mail.From)
		d.remove(Leave{Worker: mail.From, Why: fmt.Sprintf("left by plan before step %d", w.step), Planned: true, Residual: math.Sqrt(w.left)})
	case rollMisses:
		if d.leaver(w.rank) >= 0 { // what it sent last may be lost, and nobody is to wait for it
			d.void = true
			return d.callOff(ctx)
		}
		if d.now.number(d.job, w.rank) < 0 || uint32(w.step) < d.lives[w.rank] {
			return nil // known
		}
		d.missed, d.void = append(d.missed, [2]int{mail.From, w.rank}), true
		return d.callOff(ctx)
	}
	return nil
}

// here hears that a worker's process has begun. One that the run has not begun with joins,
// for which the present epoch is called off.
func (d *registrar) here(ctx context.Context, worker int, life uint32) error {
	if life <= d.lives[worker] || worker >= d.job.Workers { // a server that is gone has ended the run
		return nil
	}
	if d.lives[worker] = life; slices.Contains(d.now.Workers, worker) { // before the news of its death
		d.remove(Leave{Worker: worker, Why: "its process has ended, and another one has come"})
	}
	d.waiting[worker], d.came[worker] = true, true
	if err := onStart.Carry(ctx, d.rank, worker, message.Nothing{}, 0, comm.NewBuffer(0)); err != nil && !isGone(err) {
		return err
	}
	return nil
}

// gone hears that a process is no more. One that failed by itself ends the run, as it
// would do so again.
func (d *registrar) gone(ctx context.Context, p *comm.PeerError) error {
	takesPart := slices.Contains(d.now.Workers, p.Rank)
	switch {
	case p.Incarnation < d.lives[p.Rank]: // known
	case p.Rank >= d.job.Workers, !p.Lost && !p.Killed && !p.Ended && (takesPart || d.waiting[p.Rank]):
		return p
	case takesPart:
		d.remove(Leave{Worker: p.Rank, Why: p.Cause})
	case !p.Ended && d.leaver(p.Rank) >= 0: // the others have yet to rest, and wait for what it sent last
		d.left[d.leaver(p.Rank)] = Leave{Worker: p.Rank, Why: p.Cause}
		delete(d.waiting, p.Rank)
		delete(d.came, p.Rank)
	case d.waiting[p.Rank]:
		delete(d.waiting, p.Rank)
		delete(d.came, p.Rank)
		return d.tell(ctx, rollAbsent, Leave{Worker: p.Rank, Why: p.Cause})
	}
	return nil
}

// leaver is where in left a worker is that has left by plan in this epoch; negative: it has not.
func (d *registrar) leaver(worker int) int {
	return slices.IndexFunc(d.left, func(l Leave) bool { return l.Worker == worker && l.Planned })
}

// remove takes a worker off the list.
func (d *registrar) remove(l Leave) {
	d.now.Workers = slices.DeleteFunc(slices.Clone(d.now.Workers), func(w int) bool { return w == l.Worker })
	delete(d.rested, l.Worker)
	d.left = append(d.left, l)
}

// settle does what is due now that its list has changed.
func (d *registrar) settle(ctx context.Context) error {
	all := len(d.now.ranks(d.job))
	if len(d.rested) == all && !d.void && len(d.left) == 0 && d.all(rollDone) {
		return d.end(ctx)
	}
	dead := slices.ContainsFunc(d.left, func(l Leave) bool { return !l.Planned })
	if !d.void && (dead || len(d.came) > 0) {
		if d.void = true; len(d.now.Workers) > 0 {
			if err := d.callOff(ctx); err != nil {
				return err
			}
		}
	}
	if least := max(1, d.job.MinWorkers); len(d.now.Workers) < least {
		last := d.left[len(d.left)-1]
		return &comm.PeerError{Rank: last.Worker, Lost: true, Cause: fmt.Sprintf("%s; %d workers are left, and the run goes on with min_workers=%d or more", last.Why, len(d.now.Workers), least)}
	}
	if len(d.rested) < all {
		return nil
	}
	if err := d.parted(ctx); err != nil {
		return err
	}
	if len(d.now.Workers) < max(1, d.job.MinWorkers) {
		return d.settle(ctx)
	}
	return d.next(ctx)
}

// parted removes one of each two members who live, and the link between whom does not: the
// worker with the higher number, and no server.
func (d *registrar) parted(ctx context.Context) error {
	for _, m := range d.missed {
		a, b := min(m[0], m[1]), max(m[0], m[1])
		if b >= d.job.Workers {
			a, b = b, a
		}
		if d.now.number(d.job, a) < 0 || !slices.Contains(d.now.Workers, b) {
			continue
		}
		why := fmt.Sprintf("its link to %s is cut", d.job.RankName(a))
		d.remove(Leave{Worker: b, Why: why})
		if err := d.out(ctx, b, a, why); err != nil {
			return err
		}
	}
	d.missed = nil
	return nil
}

// all says whether all members have come to rest in such a way.
func (d *registrar) all(code uint8) bool {
	for _, r := range d.rested {
		if r.code != code {
			return false
		}
	}
	return true
}

// end tells everybody that the run is over, those too who wait to join it.
func (d *registrar) end(ctx context.Context) error {
	d.over = true
	for w := range d.job.World() {
		if d.now.number(d.job, w) < 0 && !d.waiting[w] {
			continue
		}
		if err := onForm.Send(ctx, d.rank, w, rollWord{code: rollEnd, epoch: d.now.Epoch}, 0); err != nil && !isGone(err) {
			return err
		}
	}
	return d.tell(ctx, rollEnd, nil)
}

// callOff tells the members that their epoch is over.
func (d *registrar) callOff(ctx context.Context) error {
	for _, w := range d.now.ranks(d.job) {
		if err := onVoid.Send(ctx, d.rank, w, rollWord{epoch: d.now.Epoch}, 0); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// next begins the epoch behind one that was called off, or that ends by plan.
func (d *registrar) next(ctx context.Context) error {
	first, err := d.boundary()
	if err != nil {
		return err
	}
	was, err := d.job.as(Membership{Epoch: d.now.Epoch}) // as it was formed
	if err != nil {
		return err
	}
	d.now.Samples = was.drawn(first * was.Workers)
	d.now.Epoch++
	d.now.Step, d.now.Left, d.now.Seconds = first, d.left, d.rank.h.Now().Seconds()
	anew := slices.Collect(maps.Keys(d.came))
	d.now.Joined = nil
	for w, r := range d.rested {
		if r.code == rollEmpty { // it has yet to begin
			d.now.Joined = append(d.now.Joined, w)
			if slices.Contains(d.now.Anew, w) {
				anew = append(anew, w)
			}
		}
	}
	d.now.Anew = slices.Sorted(slices.Values(anew))
	if !d.void {
		due, behind := was.joined.m.due(d.plan, first)
		for _, m := range due {
			if m.joins && d.waiting[m.worker] {
				d.came[m.worker] = true
			}
		}
		d.now.Planned = behind
	}
	for w := range d.came {
		delete(d.waiting, w)
		d.now.Joined, d.now.Workers = append(d.now.Joined, w), append(slices.Clone(d.now.Workers), w)
	}
	clear(d.came)
	slices.Sort(d.now.Joined)
	slices.Sort(d.now.Workers)
	if len(d.now.Left)+len(d.now.Joined) > 0 {
		d.now.Since = first
	}
	d.void, d.left = false, nil
	clear(d.rested)
	return d.form(ctx)
}

// boundary is the step before which the next epoch begins: the last one that all members
// have come to who have begun. Where the result is the mean of their models it is not behind
// the last step: who is gone may have told none.
func (d *registrar) boundary() (first int, err error) {
	first = -1
	for _, r := range d.rested {
		if r.code != rollEmpty && (first < 0 || r.step < first) {
			first = r.step
		}
	}
	if first < 0 {
		return 0, &comm.PeerError{Rank: d.left[len(d.left)-1].Worker, Lost: true, Cause: "it is gone before it could heal those who joined, and nobody else has the parameters"}
	}
	if first == d.job.Updates && d.job.Traits().Models > 0 {
		for _, r := range d.rested {
			if r.code != rollEmpty {
				first = min(first, r.before)
			}
		}
	}
	for w, r := range d.rested {
		if r.code != rollEmpty && first != r.step && first != r.before {
			return 0, fmt.Errorf("mode %s claims to be Elastic, and when a worker left another was at the boundary before step %d, and worker %d at those before %d and %d: they may be one apart", Modes.Spec(d.job.Mode), first, w, r.before, r.step)
		}
	}
	return first, nil
}

// form lets the present epoch begin.
func (d *registrar) form(ctx context.Context) error {
	if _, err := d.job.as(d.now); err != nil {
		return err
	}
	if err := d.tell(ctx, rollFormed, d.now); err != nil {
		return err
	}
	for _, w := range d.now.ranks(d.job) {
		if err := d.carry(ctx, w, rollFormed); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// out tells a worker that it is no member, because of another; "": it never was one.
func (d *registrar) out(ctx context.Context, worker, other int, why string) error {
	buf := comm.NewBuffer(len(why))
	copy(buf.B, why)
	err := onForm.Carry(ctx, d.rank, worker, rollWord{code: rollOut, epoch: d.now.Epoch, rank: other}, 0, buf)
	if isGone(err) {
		return nil
	}
	return err
}

// carry sends the present membership to a worker.
func (d *registrar) carry(ctx context.Context, to int, code uint8) error {
	b, err := json.Marshal(d.now)
	if err != nil {
		return err
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return onForm.Carry(ctx, d.rank, to, rollWord{code: code, epoch: d.now.Epoch}, 0, buf)
}

// tell lets the observer's main activity know, with v as JSON.
func (d *registrar) tell(ctx context.Context, code uint8, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return onTold.Carry(ctx, d.rank, d.rank.rank, rollWord{code: code, epoch: d.now.Epoch}, 0, buf)
}
