package train

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// tellJSON tells the observer v on a channel.
func (r *Rank) tellJSON(ctx context.Context, on message.Channel[message.Nothing], v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return on.Carry(ctx, r, r.job.Observer(), message.Nothing{}, 0, buf)
}

// A rank may be ahead of the observer, which evaluates while the rank goes on, by so many
// snapshots and so many steps, on a real clock: what it tells waits in memory. On the virtual
// clock the observer takes no time.
const (
	snapshotsAhead = 4
	stepsAhead     = 1024
)

// ahead are the snapshots that the observer has yet to take. A rank may tell of them in two
// activities; one holds mu from its mark until its snapshot is sent, as the observer joins
// them by their order.
type ahead struct {
	mu       sync.Mutex
	versions []int
}

// count is how many there are, once those up to a version are taken.
func (a *ahead) count(taken int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions = slices.DeleteFunc(a.versions, func(v int) bool { return v <= taken })
	return len(a.versions)
}

// Snapshot tells the observer of an update to evaluate, once it has taken earlier ones, and
// unless the mark is bare, sends parameters. They may be shared with the frame, as in
// wire.Packer.Frame.
func (r *Rank) Snapshot(ctx context.Context, m Mark, params wire.Vector) error {
	if r.sub != nil {
		m.Shard = r.sub.part
	}
	if !r.h.Virtual() && !m.Last {
		for taken := -1; r.ahead.count(taken) >= snapshotsAhead; {
			w, _, err := onTaken.Hear(comm.Idle(ctx), r, r.job.Observer())
			if err != nil {
				return err
			}
			taken = w.N
		}
	}
	if !r.h.Virtual() { // there activities take turns, and none does between two words to the observer
		r.ahead.mu.Lock()
		defer r.ahead.mu.Unlock()
		if !m.Last {
			r.ahead.versions = append(r.ahead.versions, m.Version)
		}
	}
	if err := r.tellJSON(ctx, onMark, m); err != nil || m.Bare {
		return err
	}
	hd := OnSnapshot.Header(r.job, message.Nothing{}, 0)
	f, ok := params.Frame(hd, 0, len(params.F()))
	if !ok {
		f = comm.NewFrame(hd, comm.NewBuffer(4*len(params.F())))
		f32.AppendBytes(f.Body[:0], params.F())
	}
	return r.h.Send(ctx, r.job.Observer(), f)
}

// sendState tells the observer a rank's state at a mark; nil, or without weights:
// it has none to go on from.
func (r *Rank) sendState(ctx context.Context, st *checkpoint.State) error {
	var b []byte
	if st != nil && !r.job.Weightless {
		if c := r.h.Traffic().Count(); c.WireSent+c.SharedSent > 0 {
			links := map[string]uint64{keyWire: c.WireSent, keyShared: c.SharedSent, keyReport: c.SentBody[comm.Report],
				keyBody: c.SentBody[comm.Gradient] + c.SentBody[comm.Parameters] + c.SentBody[comm.Report]}
			for name, n := range links {
				st.Ints[checkpoint.Key(name, r.rank)] = int64(n)
			}
		}
		if r.sub != nil {
			st = r.sub.named(st)
		}
		var err error
		if b, err = st.Encode(nil, sgd.Layout{}); err != nil {
			return err
		}
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return onState.Carry(ctx, r, r.job.Observer(), message.Nothing{}, 0, buf)
}

// told waits for the observer's word to begin, and says its flags; nil: from scratch.
func (r *Rank) told(ctx context.Context) (st *checkpoint.State, flags message.Flags, err error) {
	f, err := onStart.Recv(ctx, r, r.job.Observer())
	if err != nil {
		return nil, 0, err
	}
	r.job.cores.begun()
	if len(f.Body) == 0 {
		f.Release()
		return nil, f.Flags, nil
	}
	// The state aliases the body, so the frame is left to the collector.
	st, err = checkpoint.Open(f.Body)
	return st, f.Flags, err
}
