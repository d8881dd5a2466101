package experiments

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// blow is a signal that a process gets at an instant of the run, or its restart.
type blow struct {
	at   time.Duration
	rank int
	sig  os.Signal // nil: it is started again
}

// blows are what a plan of kills and pauses comes to for processes, in order of time. Who
// is paused while he is paused sleeps until both are over.
func blows(plan []nemesis.Act) (out []blow) {
	wakes := map[int]time.Duration{} // so far: plans are in order of time
	for _, a := range plan {
		switch a.What {
		case nemesis.Killing:
			out = append(out, blow{a.At, a.Rank, os.Kill})
		case nemesis.Joining:
			out = append(out, blow{a.At, a.Rank, nil})
		case nemesis.Pausing:
			if a.At <= wakes[a.Rank] { // it sleeps on
				out = slices.DeleteFunc(out, func(b blow) bool { return b == blow{wakes[a.Rank], a.Rank, sigCont} })
			}
			wakes[a.Rank] = max(wakes[a.Rank], a.Until())
			out = append(out, blow{a.At, a.Rank, sigStop}, blow{wakes[a.Rank], a.Rank, sigCont})
		}
	}
	slices.SortStableFunc(out, func(a, b blow) int { return cmp.Compare(a.at, b.at) })
	return out
}

// strikable is what key faults comes to for the processes of a job.
func strikable(r *config.Resolved, j *train.Job) ([]nemesis.Act, error) {
	plan, err := r.Plan(j.World() - j.Workers)
	if err == nil && sigStop == nil && slices.ContainsFunc(plan, func(a nemesis.Act) bool { return a.What == nemesis.Pausing }) {
		err = &config.Error{Err: errors.New("key \"faults\": this system has no signal that stops a process for a while; leave pause out, or use net=sim")}
	}
	return plan, err
}

// strike carries a plan out on the processes of a run. Its clock begins now. Ranks that the
// others do not go on without are waited for, if they come back.
func (p *processes) strike(ctx context.Context, plan []nemesis.Act, fixed []int) {
	began, all := time.Now(), blows(plan)
	for i, b := range all {
		t := time.NewTimer(b.at - time.Since(began))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		pr := p.now()[b.rank]
		if b.sig != nil {
			if b.sig == os.Kill {
				p.mu.Lock()
				p.killed[pr] = true
				p.awaited[pr] = slices.Contains(fixed, b.rank) && slices.ContainsFunc(all[i:], func(o blow) bool { return o.rank == b.rank && o.sig == nil })
				p.mu.Unlock()
			}
			_ = pr.cmd.Process.Signal(b.sig) // one that has ended feels nothing
			continue
		}
		select {
		case <-pr.done:
		default:
			if !p.struck(pr) {
				continue // it lives
			}
			<-pr.done
		}
		p.restart(pr)
	}
}

// beginning is a sink that tells when the first update was made: all ranks are at work.
type beginning struct {
	train.Sink
	once sync.Once
	tell func()
}

// Progress implements train.Sink.
func (b *beginning) Progress(p record.Progress) {
	b.once.Do(b.tell)
	b.Sink.Progress(p)
}

// Members implements train.MembersSink.
func (b *beginning) Members(m train.Membership) {
	if s, ok := b.Sink.(train.MembersSink); ok {
		s.Members(m)
	}
}

// Order implements train.OrderSink.
func (b *beginning) Order(lines []byte) error {
	if s, ok := b.Sink.(train.OrderSink); ok {
		return s.Order(lines)
	}
	return nil
}
