//go:build mpi

package mpinet

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// host is what the programs of one rank run on.
type host struct {
	comm.RealHost
	run *run
}

var (
	_ comm.Host     = (*host)(nil)
	_ comm.Streamer = (*host)(nil)
	_ comm.Folder   = (*host)(nil)
)

func newHost(r *run, rank int) *host {
	h := &host{run: r}
	h.Init(rank, r.cfg.Deadline)
	return h
}

func (h *host) Size() int          { return len(h.run.owner) }
func (h *host) Now() time.Duration { return time.Since(h.run.start) }

// Go starts an activity.
func (h *host) Go(name string, p comm.Program) { h.Start(h.run.ctx, name, h, p) }

// Send implements comm.Endpoint. Frames to a rank that has finished are dropped; to
// one that has failed, they are an error.
func (h *host) Send(ctx context.Context, to int, f comm.Frame) error {
	err := h.send(ctx, to, f)
	if err != nil {
		f.Release()
	}
	return err
}

func (h *host) send(ctx context.Context, to int, f comm.Frame) error {
	r := h.run
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if to < 0 || to >= h.Size() {
		return fmt.Errorf("rank %d: no rank %d to send to", h.Rank(), to)
	}
	if f.Header.Kind >= comm.Kind(comm.NumKinds) || f.Billed < 0 {
		return fmt.Errorf("rank %d: a frame of %v billed at %d bytes", h.Rank(), f.Header.Kind, f.Billed)
	}
	f.Header.From, f.Header.To = int32(h.Rank()), int32(to)
	if f.Header.Run == 0 {
		f.Header.Run = r.cfg.Run
	}
	if to == h.Rank() {
		h.Box.Put(f)
		return nil
	}
	if gone := r.goneRank(to); gone != nil && !gone.Ended {
		return gone
	} else if gone != nil {
		h.Traffic().Sent(f)
		f.Release()
		return nil
	}
	if o := r.hosts[to]; o != nil {
		h.Traffic().SentBody(f, 0) // nothing carries it
		o.Box.Put(f)
		return nil
	}
	counted := f // the frame may be released as soon as it is sent
	err := r.pump.put(ctx, &message{kind: msgFrame, process: r.owner[to], rank: to, frame: f}, r.cfg.Deadline)
	switch {
	case errors.Is(err, errQueueFull):
		return fmt.Errorf("%w: rank %d waited %v to send %d bytes to rank %d", comm.ErrDeadline, h.Rank(), r.cfg.Deadline, len(f.Body), to)
	case err != nil:
		return err
	}
	h.Traffic().Sent(counted)
	return nil
}

// SendFrom implements comm.Streamer.
func (h *host) SendFrom(ctx context.Context, to int, hd comm.Header, size int, src comm.Filler) error {
	return h.Send(ctx, to, comm.Filled(hd, size, src))
}

// SendLent implements comm.Streamer. MPI reads the bytes where they lie.
func (h *host) SendLent(ctx context.Context, to int, hd comm.Header, b []byte, l *comm.Loan) error {
	if to >= 0 && to < h.Size() && h.run.hosts[to] == nil && len(b) > shortMost {
		return h.Send(ctx, to, comm.NewFrame(hd, l.Lend(b, h.Traffic(), h.run)))
	}
	src := comm.Copied(b)
	return h.SendFrom(ctx, to, hd, len(b), &src)
}

// Gone implements comm.Holder of what was lent: a rank that has failed may take nothing
// any more.
func (r *run) Gone() <-chan struct{} { return r.died }

// Why implements comm.Holder.
func (r *run) Why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.death
}

// Folds implements comm.Folder: between ranks that are one of each process of the job.
func (h *host) Folds(ranks []int) bool {
	seen := make([]bool, h.run.world.Size)
	for _, r := range ranks {
		if r < 0 || r >= h.Size() || seen[h.run.owner[r]] {
			return false
		}
		seen[h.run.owner[r]] = true
	}
	return !slices.Contains(seen, false)
}

// FoldAll implements comm.Folder by MPI_Iallreduce, the form that does not block, so that
// frames, deadlines and stops go on meanwhile. MPI does not tell what it sends: counted
// is the least that every rank must, 2(n−1)/n of the vector, as to the next rank of the
// group and from the one before it.
func (h *host) FoldAll(ctx context.Context, ranks []int, hd comm.Header, x []byte, by comm.Fold) (comm.Flags, error) {
	if len(x) == 0 || len(ranks) < 2 {
		return hd.Flags, nil
	}
	id := fnv.New64a()
	fmt.Fprint(id, hd.Run, hd.Tag, hd.Step, len(x), by)
	f := &folding{x: x, by: by, words: [3]uint64{uint64(hd.Flags), id.Sum64(), ^id.Sum64()}, done: make(chan error, 1)}
	began := time.Now()
	if err := h.run.pump.fold(f); err != nil {
		return hd.Flags, err
	}
	late := time.NewTimer(h.run.cfg.Deadline)
	defer late.Stop()
	select {
	case err := <-f.done:
		if err != nil {
			return hd.Flags, err
		}
	case <-ctx.Done():
		return hd.Flags, context.Cause(ctx)
	case <-h.run.died:
		return hd.Flags, h.run.Why()
	case <-h.run.pump.ended:
		return hd.Flags, h.run.pump.broke()
	case <-late.C:
		return hd.Flags, fmt.Errorf("%w: rank %d waited %v for an all-reduce", comm.ErrDeadline, h.Rank(), h.run.cfg.Deadline)
	}
	h.Traffic().Block(time.Since(began), 0)
	h.countFold(ranks, hd, len(x))
	if f.words[1]&f.words[2] != 0 {
		return hd.Flags, fmt.Errorf("rank %d folded tag %d of step %d with something else of other ranks", h.Rank(), hd.Tag, hd.Step)
	}
	return comm.Flags(f.words[0]), nil
}

// countFold counts what an all-reduce of so many bytes moves at least.
func (h *host) countFold(ranks []int, hd comm.Header, bytes int) {
	n, me := len(ranks), slices.Index(ranks, h.Rank())
	least := 2 * (n - 1) * bytes / n
	hd.Kind, hd.From, hd.To = comm.Gradient, int32(h.Rank()), int32(ranks[(me+1)%n])
	h.Traffic().SentBody(comm.Frame{Header: hd, Billed: least}, least)
	hd.From = int32(ranks[(me+n-1)%n])
	h.Traffic().Recv(comm.Frame{Header: hd, Billed: least})
	p := h.run.pump
	p.mu.Lock()
	p.sent.Wire += uint64(least)
	p.sent.Body[comm.Gradient] += uint64(least)
	p.mu.Unlock()
}
