package train_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// slowState is a net on which what a server tells the observer with its first state, and
// later, is on its way until a worker that came meanwhile has told its own. That worker
// comes when all servers have made their first states.
type slowState struct {
	comm.Net
	job    *train.Job
	guest  int
	server int // the last one

	once sync.Once
	made chan struct{} // the first states
}

func (n *slowState) Run(ctx context.Context, programs []comm.Program) error {
	n.made = make(chan struct{})
	mine := slices.Clone(programs)
	mine[n.guest] = func(ctx context.Context, h comm.Host) error { return programs[n.guest](ctx, lateGuest{h, n}) }
	o := n.job.Observer()
	mine[o] = func(ctx context.Context, h comm.Host) error {
		return programs[o](ctx, &slowEars{Host: h, net: n, told: map[int]bool{}})
	}
	return n.Net.Run(ctx, mine)
}

// lateGuest is the worker.
type lateGuest struct {
	comm.Host
	net *slowState
}

func (h lateGuest) Send(ctx context.Context, to int, f comm.Frame) error {
	if f.Header.Tag == train.OnEnter.Tag() {
		select {
		case <-h.net.made:
		case <-ctx.Done():
			f.Release()
			return context.Cause(ctx)
		}
	}
	return h.Host.Send(ctx, to, f)
}

// slowEars are the observer's.
type slowEars struct {
	comm.Host
	net  *slowState
	told map[int]bool
	slow []comm.Frame // on their way
	due  []comm.Frame
	over bool
}

func (h *slowEars) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	for len(h.due) == 0 {
		f, err := h.Host.Recv(ctx, from, tag)
		if err != nil || h.over {
			return f, err
		}
		who := int(f.Header.From)
		if isState := f.Header.Tag == train.TagState; isState {
			h.told[who] = true
		}
		if h.told[h.net.server] && h.told[h.net.server-1] {
			h.net.once.Do(func() { close(h.net.made) })
		}
		switch {
		case who == h.net.server && h.told[who]:
			h.slow = append(h.slow, f)
			continue
		case who == h.net.guest && h.told[who]:
			h.over, h.due = true, h.slow
		}
		return f, nil
	}
	f := h.due[0]
	h.due = h.due[1:]
	return f, nil
}

// A worker that comes while a checkpoint is made, and is at the next mark before that is
// whole, rests until the next one, with what it told.
func TestWhoCameDuringACheckpointIsInTheNext(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"server": {mode("server"), policy("asp")},
		"easgd":  {mode("easgd(tau=1)"), policy("asp")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(opts, open, func(j *train.Job) { j.CheckpointEvery = 4 }, joining(train.Joining{Worker: 2, Step: 3}))
			j := job(t, opts...)
			n := &slowState{Net: &local.Net{}, job: j, guest: 2, server: j.Workers + 1}
			o, s := runOn(t, n, j, nil)
			checkOpen(t, o)
			if len(s.states) < 2 {
				t.Errorf("%d checkpoints", len(s.states))
			}
			of := map[int]bool{}
			for _, st := range s.states {
				_, ok := st.Ints[checkpoint.Key("step", 2)]
				of[len(o.Members)] = of[len(o.Members)] || ok
			}
			if !of[len(o.Members)] {
				t.Error("worker 2 is in no checkpoint")
			}
		})
	}
}

// A worker that rests at a mark and loses one of the shards is out, though it waits for
// another one. Before, both waited for it forever, if they did not agree on who rests.
func TestOneShardIsLostAtAMark(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"server": {mode("server"), policy("asp")},
		"easgd":  {mode("easgd(tau=1)"), policy("asp")},
	} {
		opts = append(opts, open, func(j *train.Job) { j.CheckpointEvery, j.Servers = 2, 3 })
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		for i := range 40 {
			if !patience.Long && i%8 > 0 {
				continue
			}
			at := seconds((float64(i) + 0.5) / 40 * whole.Final.Seconds)
			j := job(t, opts...)
			o, _ := runOn(t, faultyWith(t, j, fmt.Sprintf("partition([w1],from=[s%d],at=%v,for=40ms)", i%3, at)), j, nil)
			checkOpen(t, o)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}
