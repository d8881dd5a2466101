package train

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// A worker comes into an open run without servers in three steps, for which nobody else
// waits. It asks the observer who is there, takes the model of one of them, its neighbour
// if there is one, and says so. From then on it is a member, which the observer tells the
// others, and begins where the slowest of them is.
//
// One that leaves by plan goes on until the others have heard of it and what they had sent
// it is taken in. Then it hands what it has to a neighbour. So nothing is under way to it.

// Guest is a Mover whose worker may come into a run that goes on, and leave it by plan:
// modes without servers that claim Admits have one.
type Guest interface {
	// Leave hands another worker what would be lost with this one, to which nothing is
	// under way. ok is false where that one died before it could say that it has it.
	Leave(ctx context.Context, to int) (ok bool, err error)
	// Come begins with the model x, which it takes over, and nothing of before.
	Come(x wire.Vector)
}

// arrive begins the worker's part in an open run.
func (p *Peer) arrive(ctx context.Context) error {
	if !p.job.open() {
		return nil
	}
	if p.guest == nil {
		return fmt.Errorf("mode %s claims to admit workers, and its Mover is no Guest", Modes.Spec(p.job.Mode))
	}
	for w := range p.job.Workers {
		if p.job.isAway(w, p.start) {
			p.near.leaves(w)
		}
	}
	p.visit = newVisit(p.Rank, p.job.Observer(), p.enter)
	return p.visit.arrive(ctx, func(context.Context) error { return nil })
}

// unmade forgets what a worker that was not there has not made, of a checkpoint that it
// begins from in the place of another one.
func (p *Peer) unmade() {
	if p.job.open() {
		p.stats, p.delays = stats{missed: uint64(p.step)}, nil
	}
}

// enter comes into the run, if it is not over.
func (p *Peer) enter(ctx context.Context) error {
	var x wire.Vector
	for ok := false; !ok; {
		if _, err := p.asks(ctx, 0); err != nil || p.visit.ended {
			return err
		}
		var err error
		if x, ok, err = p.healed(ctx); err != nil {
			return err
		}
	}
	at, err := p.asks(ctx, FlagDone)
	if err != nil || p.visit.ended {
		x.Release()
		return err
	}
	if p.rule, err = NewOwnRule(p.Rank); err != nil { // its codec is a cast, and keeps nothing
		return err
	}
	p.guest.Come(x)
	p.stats.missed += at.Step - uint64(p.step) // less, if it had made more
	p.step, p.dropped = int(at.Step), nil
	p.visit.pass(int(at.Version))
	p.pace.from(p.step)
	p.near.goes(false)
	return nil
}

// asks asks the observer who is there; with FlagDone as one who has a model, and is a
// member from the answer on.
func (p *Peer) asks(ctx context.Context, flags message.Flags) (at answerWord, err error) {
	err = OnEnter.As(comm.Report).Send(ctx, p.Rank, p.job.Observer(), message.Nothing{}, flags)
	if err != nil {
		return at, err
	}
	f, err := onWelcome.Recv(comm.Idle(ctx), p.Rank, p.job.Observer())
	if p.visit.ended = isEnded(err) || f.Flags&FlagStop != 0; p.visit.ended || err != nil {
		f.Release()
		return at, onlyLost(err)
	}
	defer f.Release()
	var there present
	if err := json.Unmarshal(f.Body, &there); err != nil {
		return at, fmt.Errorf("who is there: %w", err)
	}
	p.near.meets(&there, p.job.Workers)
	return f.Word, nil
}

// nearest are the workers that are there, neighbours first.
func (p *Peer) nearest() (list []int) {
	seen := map[int]bool{p.rank: true}
	add := func(rank int) {
		if !seen[rank] && !p.IsLost(rank) {
			list = append(list, rank)
		}
		seen[rank] = true
	}
	for s := range p.job.Graph.Period(p.job.Workers) {
		for _, e := range p.job.Graph.Mix(p.rank, p.job.Workers, p.step+s).Out {
			add(e.Rank)
		}
	}
	for w := range p.job.Workers {
		add(w)
	}
	return list
}

// healed takes the model of another worker; ok is false if those who were there have died
// or left.
func (p *Peer) healed(ctx context.Context) (x wire.Vector, ok bool, err error) {
	list := p.nearest()
	if len(list) == 0 {
		return x, false, p.alone()
	}
	for _, w := range list {
		err := OnPeer.As(comm.Control).Send(ctx, p.Rank, w, Said{Step: p.step, life: p.near.lifeOf(w)}, 0)
		for err == nil && !ok {
			var f message.Mail[Said]
			if f, err = OnReply.Recv(ctx, p.Rank, w); err != nil {
				break
			}
			if f.Header.Kind == comm.Parameters {
				x, err = p.model(f.Frame)
				ok = err == nil
			}
			left := f.Flags&FlagStop != 0
			if f.Release(); left {
				break
			}
		}
		if err = p.Lost(err); err != nil || ok {
			return x, ok, err
		}
	}
	return x, false, nil
}

// alone is the error of a worker that can reach nobody of those who are there.
func (p *Peer) alone() error {
	for w := range p.job.Workers {
		if why := p.near.death(w); why != nil {
			return &outError{p.rank, comm.PeerError{Rank: w, Cause: why.Cause + ", and nobody else has the parameters", Lost: true}}
		}
	}
	return &outError{p.rank, comm.PeerError{Rank: p.rank, Cause: "nobody else has the parameters", Lost: true}}
}

// model is the model that a frame brings.
func (p *Peer) model(f comm.Frame) (wire.Vector, error) {
	n := len(p.X.F())
	if len(f.Body) != 4*n {
		return wire.Vector{}, fmt.Errorf("worker %d: worker %d sent %d bytes of parameters, want %d", p.rank, f.Header.From, len(f.Body), 4*n)
	}
	if x, ok := wire.Received(f); ok {
		return x, nil
	}
	x := wire.NewVector(n)
	f32.FromBytes(x.F(), f.Body)
	return x, nil
}

// heals sends the worker's model to one that comes, unless it has left itself, or the
// process that is asked is no more. It is billed as it is, uncoded.
func (p *Peer) heals(ctx context.Context, f message.Mail[Said], m Mover) error {
	said := Said{Step: f.Word.Step}
	if _, away := p.near.self(); away || !p.isMeant(f) {
		return p.Lost(OnReply.As(comm.Control).Send(ctx, p.Rank, f.From, said, FlagStop))
	}
	x := m.Model()
	defer x.Release()
	hd := OnReply.As(comm.Parameters).Header(p.job, said, 0)
	if p.job.Weightless {
		return p.Lost(p.h.Send(ctx, f.From, comm.Frame{Header: hd, Billed: 4 * p.job.Model.Layout().Size()}))
	}
	back, ok := x.Frame(hd, 0, len(x.F()))
	if !ok {
		back = comm.NewFrame(hd, comm.NewBuffer(4*len(x.F())))
		f32.AppendBytes(back.Body[:0], x.F())
	}
	return p.Lost(p.h.Send(ctx, f.From, back))
}

// isMeant says whether what another worker said is for this process of the worker.
func (p *Peer) isMeant(f message.Mail[Said]) bool {
	life, _ := p.near.self()
	return f.Word.life == life
}

// loses is Lost in an activity beside the main one, which may wait for who has died.
func (p *Peer) loses(ctx context.Context, err error) error {
	if err = p.Lost(err); err != nil || !p.job.open() {
		return err
	}
	return OnReply.As(comm.Control).Wake(ctx, p.Rank, Said{}, 0)
}

// turn takes up, before a step, who has come and who leaves. Of one that leaves it says a
// step later that nothing is under way to it. It leaves itself, if it is told to.
func (p *Peer) turn(ctx context.Context) error {
	for _, c := range p.dropped {
		if err := onDropped.Send(ctx, p.Rank, p.job.Observer(), c, 0); err != nil {
			return err
		}
	}
	p.dropped = nil
	leaves := false
	for _, c := range p.near.heard() {
		switch c.code {
		case callCame:
			p.near.comes(c.rank, c.life)
		case callGoes:
			p.near.leaves(c.rank)
			p.dropped = append(p.dropped, c)
		case callLeave:
			leaves = true
		}
	}
	if !leaves {
		return nil
	}
	return p.leaves(ctx)
}

// leaves leaves the run by plan, unless nobody else is there, and comes back if that is
// planned too.
func (p *Peer) leaves(ctx context.Context) error {
	if p.pace.rest != nil {
		if err := p.pace.rest(ctx); err != nil {
			return err
		}
	}
	word, flags := rollWord{code: rollEmpty}, message.Flags(0)
	for _, w := range p.nearest() {
		ok, err := p.guest.Leave(ctx, w)
		if err != nil {
			return err
		}
		if ok {
			word = rollWord{code: rollLeaves, left: p.codec.Residual()}
			break
		}
	}
	stays := word.code == rollEmpty
	if !stays {
		p.near.goes(true)
		if _, returns := p.visit.next(true); !returns {
			p.visit.ended, flags = true, FlagDone
		}
	}
	err := onLeave.As(comm.Report).Send(ctx, p.Rank, p.job.Observer(), word, flags)
	if err != nil || stays || p.visit.ended {
		return err
	}
	return p.visit.wait(ctx)
}
