package train_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/sgd/train"
)

// server is the host of a server whose worker dies while the server waits for the
// observer: from then on sends to it fail, as they do between processes.
type server struct {
	comm.Host
	observer, worker, heard int
	kill                    func()
	dead                    atomic.Bool
}

func (s *server) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	if from == s.observer {
		if s.heard++; s.heard == 2 { // the first was the word to begin
			s.kill()
			s.dead.Store(true)
		}
	}
	return s.Host.Recv(ctx, from, tag)
}

func (s *server) Send(ctx context.Context, to int, f comm.Frame) error {
	if to == s.worker && s.dead.Load() {
		f.Release()
		return &comm.PeerError{Rank: to, Cause: "killed"}
	}
	return s.Host.Send(ctx, to, f)
}

// A worker may die while it waits at a mark: those that need not wait for it go on.
func TestWorkerDiesAtAMark(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"differences": {policy("asp"), down("topk(keep=0.2)")},
		"downpour":    {mode("downpour"), policy("asp")},
		"easgd":       {mode("easgd(tau=2)"), policy("asp"), optimizer("sgd")},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, append(opts, func(j *train.Job) { j.CheckpointEvery = 4 })...)
			o := &train.Observer{Job: j, Sink: &sink{}}
			programs, err := j.Programs(o)
			if err != nil {
				t.Fatal(err)
			}
			killed, kill := context.WithCancel(t.Context())
			defer kill()
			worker, serve := programs[1], programs[j.Workers]
			programs[1] = func(_ context.Context, h comm.Host) error { return worker(killed, h) }
			programs[j.Workers] = func(ctx context.Context, h comm.Host) error {
				return serve(ctx, &server{Host: h, observer: j.Observer(), worker: 1, kill: kill})
			}
			_ = (&local.Net{}).Run(t.Context(), programs) // the error of the one that died
			if len(o.Dead) != 1 || o.Final.Step != j.Updates {
				t.Errorf("%d dead, ended at update %d of %d", len(o.Dead), o.Final.Step, j.Updates)
			}
		})
	}
}
