package train

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/staleness"
)

// Rudra is parameter servers behind a tree (Gupta, Zhang and Wang 2016):
// Rudra-adv, and with Threads Rudra-adv*. Rudra-base is mode server.
//
// Learners push to a relay that sits with one of them. Relays add up what comes
// from Tree children each and pass the sums up. The servers, which have no
// more than Tree children either, apply them. A sum carries the version that each
// gradient in it was computed on, so policies and correctors know every one's
// staleness. But they scale a sum as a whole, by the mean of its gradients'
// corrections. An update may take more gradients than the policy waits for, as
// sums are not taken apart. Key epochs, which counts what the policy waits for, are then
// too few (with Threads, up to one for every learner). So compare by steps or by the
// samples reported at the end. Parameters come down the same way, one payload a
// version and edge, and only to who has an older one.
//
// A learner of Rudra-adv pushes, asks for parameters and waits for them. With
// Threads it has three activities. One computes, on whatever parameters came
// last. One pushes meanwhile. One for each shard keeps asking for a version
// newer than the last, so that parameters are broadcast down the tree as they are
// made. A gradient waits for the one before to be taken.
//
// Codecs work on every edge: a relay decodes, adds and encodes anew, with a
// residual of its own. What is counted as up and down is what the servers got and
// sent; each rank's traffic is in its report.
//
// Rule: each relay sends the sum of what its children sent, encoded anew.
//
// Tuning: tree so that the servers and each relay have few children; threads
// where computing is short.
//
// Cost: a decoding and an encoding a child and level; staleness grows with the
// depth of the tree.
type Rudra struct {
	Tree    int  `spec:",show" doc:"children of a relay and of the servers, at least 2"`
	Threads bool `doc:"learners push and pull while they compute: Rudra-adv*"`
}

var _ = Modes.Add("rudra", "parameter servers behind a tree of relays that add gradients up: Rudra-adv, adv* (Gupta et al. 2016)", Rudra{Tree: 4})

// Validate checks the options.
func (m Rudra) Validate() error {
	if m.Tree < 2 {
		return fmt.Errorf("option \"tree\" is %d; want at least 2", m.Tree)
	}
	return nil
}

// Traits implements Mode. What relays pass on goes on from step to step. It outlives
// workers that have no relay, and takes others in their place.
func (m Rudra) Traits(j *Job) Traits {
	t := Traits{Servers: j.served(), PerUpdate: j.policy().PerUpdate, Tree: m.Tree, Beside: m.Threads, UnderWay: true,
		Outlives: !j.synchronous(), Admits: !j.synchronous(), Weightless: true, Steady: true,
		Codec: TakesAll, Down: TakesCasts, Heeds: rudraHeeds, Refuses: rudraRefuses}
	if m.Threads {
		t.Refuses = threadsRefuse
	}
	return t
}

var (
	rudraHeeds   = []string{"servers", "placement", "policy", "corrector", "down_codec"}
	rudraRefuses = map[string]string{
		"overlap":    "it pushes whole gradients; what it has for overlap is rudra(threads=true)",
		"gap":        "gap compares with what each gradient was computed on, and the servers get sums; use mode server",
		"order_log":  "order_log tells who pushed when, and the servers get sums; use mode server",
		"down_codec": "relays give all below them the same payload",
	}
	threadsRefuse = with(rudraRefuses, "checkpoint_every", "learners of rudra(threads=true) are never at rest, so that a run cannot go on alike from a mark (on a real clock a run that is stopped leaves a checkpoint all the same)")
)

// Check implements Mode.
func (m Rudra) Check(j *Job) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if p := j.policy(); p.Drops || p.Voids || p.ByLoss || p.Waits && !p.Synchronous {
		return fmt.Errorf("policy %s holds workers up, drops gradients or cancels them one by one, which sums do not allow; mode rudra wants bsp, softsync, kbatchasync or asp", staleness.Policies.Spec(j.Policy))
	}
	switch {
	case m.Threads && j.synchronous():
		return errors.New("rudra(threads=true) computes without waiting for parameters, and with policy bsp all wait; use softsync or asp")
	case j.corrector().Amends:
		return fmt.Errorf("corrector %s changes gradients one by one, and in mode rudra the servers get sums; use one that scales, or mode server", staleness.Correctors.Spec(j.Corrector))
	}
	if err := checkServers(j); err != nil {
		return err
	}
	t := j.tree()
	if at := t.relays[0]; at != nil { // there is none elsewhere without it
		_, err := newRelay(NewRank(j, 0), t, at, j.shards())
		return err
	}
	return nil
}

// tree is the tree of a job whose mode has relays; nil in others.
func (j *Job) tree() *tree {
	if n := j.Traits().Tree; n > 0 {
		return newTree(j.Workers, n)
	}
	return nil
}

// threaded says whether learners of mode rudra push and pull while they compute.
func (j *Job) threaded() bool { return j.Traits().Beside }

// lasting says whether who asks for parameters on a tree waits until there are
// newer ones.
func (j *Job) lasting() bool { return j.synchronous() || j.threaded() }

// Part implements Mode.
func (m Rudra) Part(r *Rank) (Part, error) {
	sh := r.job.shards()
	if r.rank >= r.job.Workers {
		return newServer(r, sh)
	}
	w, err := newWorker(r, sh)
	if err != nil {
		return nil, err
	}
	t := r.job.tree()
	l := &learner{worker: w, told: make([]message.Flags, len(sh))}
	if s, shares := w.holding.(shared); shares && len(sh) == 1 {
		w.holding = lasting{s}
	} else {
		w.keep() // one may have newer parameters when the other has none
	}
	for _, k := range w.links {
		if t.parent[r.rank] != servers {
			k.rank = t.parent[r.rank]
		}
	}
	if at := t.relays[r.rank]; at != nil {
		l.relay, err = newRelay(r, t, at, sh)
	}
	return l, err
}

// learner is a worker of mode rudra. Its links go to its parent on the tree.
type learner struct {
	*worker
	relay *relay // that sits with it; nil: none

	// With threads.
	mu      sync.Mutex
	told    []message.Flags // flags, by shard; guarded by mu, as is what links fetched
	closing bool            // ask no more; guarded by mu
	asking  int             // wishes decided on and not yet sent; guarded by mu
}

func (l *learner) Beside() bool { return true }

// Run implements Part.
func (l *learner) Run(ctx context.Context) (err error) {
	l.plan(ctx)
	if l.relay != nil {
		l.h.Go("relay", l.relay.program)
	}
	if err := l.begin(ctx, l.resume); err != nil {
		return err
	}
	end, err := l.ended(ctx)
	switch {
	case end:
	case l.job.threaded():
		err = l.race(ctx)
	default:
		err = l.train(ctx)
	}
	if err != nil {
		return err
	}
	if l.relay != nil { // others may still need it
		_, _, err = onRelay.Hear(comm.Idle(ctx), l.Rank, l.rank)
	}
	return err
}

// resume goes on from where the run was stopped.
func (l *learner) resume(ctx context.Context) error {
	if err := l.restore(ctx); err != nil {
		return err
	}
	return l.goOn(ctx, !l.job.restored())
}

// plan makes the work of a round.
func (l *learner) plan(ctx context.Context) {
	l.leaving.plan(ctx)
	l.work.Then = func(mark int) error {
		if err := l.push(ctx, mark); err != nil || mark < len(l.order)-1 {
			return err
		}
		for _, k := range l.links {
			if err := l.pull(ctx, k, k.version+1); err != nil {
				return err
			}
			k.expect(onFetched.Of(k.id).Tag())
		}
		return nil
	}
}

// push sends the payload of mark i.
func (l *learner) push(ctx context.Context, i int) error {
	p := &l.order[i]
	f := p.next
	p.next = comm.Frame{}
	w := OnPush.Read(f.Header)
	f.Header = onTree.As(comm.Gradient).Header(l.job, treeWord{code: codePush, shard: w.Shard, step: w.Step, version: w.Version, loss: w.Loss, seq: p.link.seq}, f.Header.Flags)
	p.link.seq++
	return l.h.Send(ctx, p.link.rank, f)
}

// pull asks for parameters of version have or later; 0: whichever there are.
func (l *learner) pull(ctx context.Context, k *link, have uint64) error {
	return onTree.Send(ctx, l.Rank, k.rank, treeWord{code: codePull, shard: k.id, have: have}, 0)
}

// word says on every tree what the learner is about.
func (l *learner) word(ctx context.Context, code uint8) error {
	for _, k := range l.links {
		if err := onTree.Send(ctx, l.Rank, k.rank, treeWord{code: code, shard: k.id, learner: l.rank}, l.flags&FlagStop); err != nil {
			return err
		}
	}
	return nil
}

// ring says something to the relay beside the learner, if there is one.
func (l *learner) ring(ctx context.Context, code uint8) error {
	if l.relay == nil {
		return nil
	}
	return onTree.Wake(ctx, l.Rank, treeWord{code: code}, 0)
}

// train is all that a learner without threads does.
func (l *learner) train(ctx context.Context) error {
	for {
		if err := l.departs(ctx, l.awaitAll); err != nil || l.visit.gone() {
			return err
		}
		if err := l.round(ctx); err != nil {
			return err
		}
		began := l.times.Read()
		if err := l.awaitAll(ctx); err != nil {
			return err
		}
		l.times.Stood(began)
		if err := l.Doing(ctx); err != nil {
			return err
		}
		if l.flags&FlagDone != 0 {
			return l.word(ctx, codeBye)
		}
		if every := l.job.CheckpointEvery; l.flags&FlagStop == 0 && (every == 0 || l.step%every != 0) {
			continue
		}
		if err := l.rest(ctx); err != nil {
			return err
		}
		if err := l.goOn(ctx, false); err != nil {
			return err
		}
		if end, err := l.ended(ctx); end {
			return err
		}
	}
}

// ended says goodbye if the run was over, or stopped, at a mark, or is over for the learner.
func (l *learner) ended(ctx context.Context) (bool, error) {
	switch {
	case l.visit.gone():
		return true, nil
	case l.flags&FlagDone != 0:
		return true, l.word(ctx, codeBye)
	case l.flags&FlagStop != 0:
		return true, l.ring(ctx, codeQuit)
	}
	return false, nil
}

// rest says that the learner is at a mark. Its state it leaves to the relay beside
// it, which has something to add.
func (l *learner) rest(ctx context.Context) error {
	st, err := l.state(l)
	if err != nil {
		return err
	}
	l.leaves(st)
	if l.relay == nil || l.relay.open {
		if err := l.sendState(ctx, st); err != nil {
			return err
		}
	} else {
		l.relay.handed <- st
		if err := l.ring(ctx, codeHand); err != nil {
			return err
		}
	}
	return l.word(ctx, codeRest)
}

// goOn waits at a mark until every server lets the learner go on, and takes up the
// present parameters where others may have gone on meanwhile, or has none.
func (l *learner) goOn(ctx context.Context, bare bool) error {
	if err := l.worker.goOn(ctx); err != nil || l.flags != 0 || l.job.synchronous() && !bare {
		return err
	}
	for _, k := range l.links {
		if err := l.pull(ctx, k, 0); err != nil {
			return err
		}
		k.expect(onFetched.Of(k.id).Tag())
	}
	return l.awaitAll(ctx)
}

// race is what the computing activity of a learner with threads does, as often as it comes.
func (l *learner) race(ctx context.Context) error {
	for {
		if err := l.stay(ctx); err != nil || l.flags != 0 || l.visit.gone() {
			return err
		}
		if err := l.returns(ctx); err != nil || l.visit.gone() {
			return err
		}
	}
}

// stay is race until the run is over, or the learner leaves by plan.
func (l *learner) stay(ctx context.Context) error {
	l.closing = false
	for _, k := range l.links {
		have := k.version + 1
		l.h.Go("pull", func(ctx context.Context, _ comm.Host) error { return l.pullActivity(ctx, k, have) })
	}
	l.h.Go("push", l.pushActivity)
	pass := Pass{On: l.on}
	for i := range l.order {
		pass.Coding += l.order[i].encoding()
	}
	for {
		if err := l.renew(ctx); err != nil {
			return err
		}
		if l.flags != 0 || l.due() {
			break
		}
		if err := l.Compute(ctx, pass); err != nil {
			return err
		}
		if err := l.taken(ctx); err != nil {
			return err
		}
		for i := range l.order {
			if err := l.encode(i, l.grad); err != nil {
				return err
			}
		}
		l.grad.Release()
		if err := l.Made(ctx); err != nil {
			return err
		}
		l.away = true
		if err := onHanded.Wake(ctx, l.Rank, message.Nothing{}, 0); err != nil {
			return err
		}
	}
	return l.part(ctx)
}

// part ends what a learner with threads has under way, because of the flags, or as it
// leaves by plan.
func (l *learner) part(ctx context.Context) error {
	leaves := l.flags == 0
	if err := l.taken(ctx); err != nil {
		return err
	}
	if err := onHanded.Wake(ctx, l.Rank, message.Nothing{}, FlagDone); err != nil {
		return err
	}
	l.mu.Lock()
	l.closing = true
	asking := l.asking
	l.mu.Unlock()
	for range asking { // a relay answers what comes before the learner's last word, and may be gone after it
		if _, _, err := onAsked.Wait(ctx, l.Rank); err != nil {
			return err
		}
	}
	stop := l.flags&FlagDone == 0 && !leaves
	var err error
	switch {
	case stop:
		err = l.rest(ctx)
	case leaves:
		err = l.goes(ctx)
	}
	if err != nil {
		return err
	}
	for range l.links { // let the activities end
		if _, _, err := onBrought.Wait(ctx, l.Rank); err != nil {
			return err
		}
	}
	if leaves {
		for _, k := range l.links { // never taken up
			k.fetched.Release()
			k.fetched = comm.Frame{}
		}
		return nil
	}
	if stop {
		if err := l.worker.goOn(ctx); err != nil {
			return err
		}
	}
	_, err = l.ended(ctx)
	return err
}

// renew takes up what the pull activities have brought since, and bills it.
func (l *learner) renew(ctx context.Context) error {
	coding, err := l.takeNewest()
	if err != nil {
		return err
	}
	return l.times.Taking(ctx, coding)
}

func (l *learner) takeNewest() (coding time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range l.links {
		l.hear(k, l.told[i])
		f := k.fetched
		if f.Header.Kind != comm.Parameters {
			continue
		}
		coding += k.in.taking(0)
		k.fetched = comm.Frame{}
		err := l.worker.take(k, 0, f)
		f.Release()
		if err != nil {
			return 0, err
		}
	}
	return coding, nil
}

// pullActivity keeps asking for parameters newer than those it brought last.
func (l *learner) pullActivity(ctx context.Context, k *link, have uint64) error {
	for {
		l.mu.Lock()
		end := l.closing || l.told[k.id] != 0
		if !end {
			l.asking++
		}
		l.mu.Unlock()
		if end {
			return onBrought.Wake(ctx, l.Rank, message.Nothing{}, 0)
		}
		if err := l.pull(ctx, k, have); err != nil {
			return err
		}
		l.mu.Lock()
		l.asking--
		late := l.closing
		l.mu.Unlock()
		if late {
			if err := onAsked.Wake(ctx, l.Rank, message.Nothing{}, 0); err != nil {
				return err
			}
		}
		f, err := l.h.Recv(ctx, k.rank, onFetched.Of(k.id).Tag())
		if err != nil {
			return fmt.Errorf("worker %d, fetch of shard %d: %w", l.rank, k.id, err)
		}
		l.mu.Lock()
		l.told[k.id] |= f.Header.Flags
		if f.Header.Kind == comm.Parameters {
			have = f.Header.Version + 1
			k.fetched, f = f, k.fetched // the older one, never taken up
		}
		l.mu.Unlock()
		f.Release()
	}
}

// pushActivity takes gradients to the parent and waits until they are taken.
func (l *learner) pushActivity(ctx context.Context, _ comm.Host) error {
	for {
		_, told, err := onHanded.Wait(ctx, l.Rank)
		if err != nil || told&FlagDone != 0 {
			return err
		}
		for i := range l.order {
			if err := l.push(ctx, i); err != nil {
				return err
			}
		}
		for _, k := range l.links {
			if _, _, err := onAnswer.Of(k.id).Hear(ctx, l.Rank, k.rank); err != nil {
				return fmt.Errorf("worker %d, receipt of shard %d: %w", l.rank, k.id, err)
			}
		}
		if err := onPushed.Wake(ctx, l.Rank, message.Nothing{}, 0); err != nil {
			return err
		}
	}
}

// Keep takes up what the relay beside the learner had, too; the relay keeps it by
// itself.
func (l *learner) Keep(k *checkpoint.Keeper) {
	if l.relay != nil && k.Loads() {
		l.relay.Keep(k)
	}
	l.worker.Keep(k)
}
