package train

import (
	"context"

	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// report tells the observer about an update: progress now and then, of which the
// first server knows all but the others' bytes, and a snapshot at evaluations.
func (s *server) report(ctx context.Context) error {
	v := s.core.Version()
	e := s.job.EvalEvery
	after := s.member != nil && e > 0 && (v-1)%e == 0 // the observer waits for it: see Observer.passes
	switch due := v%s.job.ReportEvery() == 0 || s.core.Done() || after; {
	case !due:
	case s.id > 0:
		m := record.Progress{Step: v}
		s.prog.Noise.Fill(&m)
		m.BytesUp, m.BytesDown = s.bytes()
		if err := s.tellJSON(ctx, onProgress, m); err != nil {
			return err
		}
	default:
		p := s.job.ProgressAt(v, s.core.Taken()*s.job.perPush())
		m := record.Progress{Step: v, Samples: p.Samples, Epoch: p.Epoch, Seconds: s.h.Now().Seconds(), LR: s.store.sched(p)}
		s.prog.Fill(&m, s.core.Delays())
		s.prog.measured(&m, &s.meas.age, &s.store.gap)
		m.BytesUp, m.BytesDown = s.bytes()
		if err := s.tellJSON(ctx, onProgress, m); err != nil {
			return err
		}
	}
	if e > 0 && v%e == 0 && !s.core.Done() {
		return s.snapshot(ctx, false)
	}
	return nil
}

func (s *server) snapshot(ctx context.Context, last bool) error {
	up, down := s.bytes()
	p := s.job.ProgressAt(s.core.Version(), s.core.Taken()*s.job.perPush())
	m := Mark{Shard: s.id, Version: s.core.Version(), Samples: p.Samples, Epoch: p.Epoch, Seconds: s.h.Now().Seconds(), Up: up, Down: down, Last: last, Bare: s.job.Weightless}
	if m.Bare {
		return s.Snapshot(ctx, m, wire.Vector{})
	}
	return s.Snapshot(ctx, m, s.store.opt.Avg.Shown(s.store.params))
}

// Final implements Part.
func (s *server) Final(r *record.RankReport) {
	r.Shard, r.Version, r.Ledger = s.id, s.core.Version(), s.core.Ledger()
	r.Delays, r.Taken, r.Causes = s.core.Delays(), s.taken(), s.core.Causes()
	for _, n := range s.past {
		if r.Past += n; n > 0 {
			r.PastOf = s.past
		}
	}
	r.Lost, r.Stopped = s.lost, s.stop && !s.core.Done()
	r.Age, r.Gap, r.Waits = s.meas.age.Spread(), s.store.gap.Spread(), s.meas.waits
}

// keepPast keeps how many pushes there were of workers that died, where there were any.
func (s *server) keepPast(k *checkpoint.Keeper) {
	for w := range s.past {
		if s.past[w] > 0 || k.Loads() {
			k.Count(checkpoint.Key(keyPast, s.id, w), &s.past[w])
		}
	}
}

// Keep keeps the shard and all that decides what becomes of it.
func (s *server) Keep(k *checkpoint.Keeper) {
	if !s.job.Weightless {
		size := s.job.Model.Layout().Size()
		wire.KeepPacked(k, KeyParam, s.shard, s.store.params.F(), size)
		for _, sl := range s.store.opt.Slots() {
			wire.KeepPacked(k, KeyOpt+sl.Name, s.shard, sl.V, size)
		}
	}
	if !k.Loads() {
		k.Of.Ints[KeyVersion] = int64(s.core.Version())
	}
	s.tally(k)
	s.keepPast(k)
	s.keepMade(k)
	for w, in := range s.store.in {
		in.KeepReceivers(k, checkpoint.Under(keyIn, s.id, w))
	}
	if k.Own && k.Loads() {
		s.renew(k)
		s.rated()
		return
	}
	for w := range s.holds {
		k.Count(checkpoint.Key(keyHolds, w, s.id), &s.holds[w])
	}
	if !k.Own {
		s.down.keep(k)
	}
	s.store.amend.keep(k, checkpoint.Under(keyAmends, s.id))
	s.store.sent.keep(k, checkpoint.Under(keySent, s.id), s.shard.Size(), s.core.Holds)
	if k.State(checkpoint.Key(keyCore, s.id), s.core); k.Loads() {
		s.rated()
	}
	s.keepMeasures(k, false)
}

// rated sets the learning rate of the next update.
func (s *server) rated() {
	s.store.rate = s.store.sched(s.job.ProgressAt(s.core.Version(), s.core.Taken()*s.job.perPush()))
}
