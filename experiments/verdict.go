package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Ranks that a launcher has started, each by itself, end when the run has: the observer
// tells them its verdict. A process that ended earlier, and well, would not be started
// again where the run is stopped or its last evaluation fails; nor would one that does
// not know that the run was stopped.
//
//	tag     verdictTag, of kind report, which nobody is billed for
//	code    verdictDone, verdictStopped or verdictRequeue: stopped, to be started again
const (
	verdictTag = comm.AnyTag - 1 // above all channels of the engine

	verdictDone    uint8 = 1
	verdictStopped uint8 = 2
	verdictRequeue uint8 = 3
)

// errRunStopped is the end of a rank whose run was stopped.
const errRunStopped = Stopped("the run's record says how it goes on, with --resume")

// telling is the observer's program with the verdict behind it, for the ranks that other
// processes hold. ended, if not nil, is told an error.
func telling(obs *train.Observer, program comm.Program, requeue func() bool, ended func(error)) comm.Program {
	return func(ctx context.Context, h comm.Host) error {
		if err := program(ctx, h); err != nil {
			if ended != nil {
				ended(err)
			}
			return err
		}
		head := comm.Header{From: int32(h.Rank()), Tag: verdictTag, Kind: comm.Report, Code: verdictDone}
		if slices.ContainsFunc(obs.Reports, func(r record.RankReport) bool { return r.Stopped }) {
			if head.Code = verdictStopped; requeue() {
				head.Code = verdictRequeue
			}
		}
		for rank := 1; rank < h.Rank(); rank++ {
			head.To = int32(rank)
			if err := h.Send(ctx, rank, comm.NewFrame(head, comm.NewBuffer(0))); err != nil && ctx.Err() != nil {
				return err // else the rank is dead, which the run has survived
			}
		}
		return nil
	}
}

// requeued says whether a stop asks that the run be started again.
func requeued(requeue *atomic.Bool) bool { return requeue != nil && requeue.Load() }

// told is a rank's program that ends with the observer's verdict. ended, if not nil, is told
// how the observer failed, while the rank computes.
func told(observer int, program comm.Program, requeue *atomic.Bool, ended func(error)) comm.Program {
	verdict := func(ctx context.Context, h comm.Host) error { return verdictOf(ctx, h, observer, requeue) }
	return func(ctx context.Context, h comm.Host) error {
		if ended == nil {
			if err := program(ctx, h); err != nil {
				return err
			}
			return verdict(ctx, h)
		}
		came := make(chan error, 1)
		h.Go("verdict", func(ctx context.Context, h comm.Host) error {
			err := verdict(comm.Idle(ctx), h)
			if err != nil && !errors.Is(err, ErrStopped) {
				ended(err)
			}
			came <- err
			return nil
		})
		if err := program(ctx, h); err != nil {
			return err // which ends the wait for the verdict
		}
		return <-came
	}
}

// verdictOf waits for the observer's verdict; nil: the run is done.
func verdictOf(ctx context.Context, h comm.Host, observer int, requeue *atomic.Bool) error {
	f, err := h.Recv(ctx, observer, verdictTag)
	if err != nil {
		return fmt.Errorf("waiting for the end of the run: %w", err)
	}
	defer f.Release()
	switch f.Header.Code {
	case verdictDone:
		return nil
	case verdictRequeue:
		if requeue != nil {
			requeue.Store(true)
		}
		return errRunStopped
	case verdictStopped:
		return errRunStopped
	}
	return errors.New("the observer's verdict cannot be read: all ranks have to be of one version")
}
