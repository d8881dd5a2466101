// Package traintest is the conformance suite for modes: what a mode must keep to,
// beside what it claims of itself, whoever wrote it. Modes tries all that are
// enrolled, Mode one.
//
// Every check is a run, or a few, of three or more workers on Gaussian clusters, mostly on
// the virtual cluster. A mode is set up with the defaults and the first policy, graph and
// codec that it takes. Checks called claims are of its Traits, one by one: what it claims
// must be seen, and what is seen must be claimed.
package traintest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Modes runs the suite on every mode that is enrolled, at its defaults.
func Modes(t *testing.T) {
	for _, name := range train.Modes.Names() {
		t.Run(name, func(t *testing.T) { Mode(t, train.Modes.MustParse(name)) })
	}
}

// Mode runs the suite on one mode. Most checks run beside each other, so t itself must
// not be parallel.
func Mode(t *testing.T, m train.Mode) {
	for _, c := range all(m) {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "claims/quiet" { // it counts what all goroutines allocate
				t.Parallel()
			}
			if err := safely(func() error { return c.fails(m) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// Failures is what Mode would report, by name of the check: for tests of modes that
// are to fail.
func Failures(m train.Mode) map[string]error {
	out := map[string]error{}
	for _, c := range all(m) {
		if err := safely(func() error { return c.fails(m) }); err != nil {
			out[c.name] = err
		}
	}
	return out
}

// check is one of the suite.
type check struct {
	name  string
	fails func(train.Mode) error
}

var conduct = []check{
	{"bits", bits}, {"resume", resume}, {"stop", stop}, {"ledger", ledger}, {"bytes", told}, {"death", death}, {"average", average}, {"lead", lead},
}

// all are the checks that a mode is put through.
func all(m train.Mode) []check {
	out := slices.Clone(conduct)
	for _, c := range claims {
		if !unseen(m, c.name) {
			c.name = "claims/" + c.name
			out = append(out, c)
		}
	}
	return out
}

// safely makes a panic an error.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// result is what came of a run.
type result struct {
	*train.Observer
	states []*checkpoint.State // its checkpoints, in order
	evals  []record.Eval
}

// Progress, Eval and Checkpoint implement train.Sink.
func (*result) Progress(record.Progress) {}
func (r *result) Eval(e record.Eval)     { r.evals = append(r.evals, e) }
func (r *result) Checkpoint(_ int, s *checkpoint.State) error {
	r.states = append(r.states, s)
	return nil
}

func virtual(start time.Duration) *sim.Net {
	return &sim.Net{Start: start, Network: &sim.Fair{Bandwidth: 1e8, Latency: 100 * time.Microsecond}}
}

// run makes a run of a job; from is the state it begins from, or nil.
func run(j *train.Job, net comm.Net, from *checkpoint.State) (*result, error) {
	j.Prepare()
	r := &result{Observer: &train.Observer{Job: j, Start: from}}
	r.Sink = r
	programs, err := j.Programs(r.Observer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return r, net.Run(ctx, programs)
}

// only says that a mode runs on no virtual cluster.
func only(j *train.Job) bool { return j.Mode.Traits(j).SharedMemory }

// bits: two runs on the virtual cluster end alike; so do one in goroutines and one over
// gRPC, each rank by itself, if the job claims to be timeless. All make as many updates
// as they should.
func bits(m train.Mode) error {
	var nets []comm.Net
	j, err := World(m)
	if err != nil {
		return err
	}
	if !only(j) {
		nets = append(nets, virtual(0), virtual(0))
	}
	nets = append(nets, &local.Net{})
	if !only(j) {
		nets = append(nets, processes{func() (*train.Job, error) { return World(m) }})
	}
	first := ""
	for _, net := range nets {
		j, _ := World(m)
		_, virtual := net.(*sim.Net)
		_, apart := net.(processes)
		if apart {
			j.Here = 1
		}
		r, err := run(j, net, nil)
		switch {
		case err != nil:
			return fmt.Errorf("on %T: %w", net, err)
		case r.Final.Step != j.Updates:
			return fmt.Errorf("on %T it ended at update %d of %d", net, r.Final.Step, j.Updates)
		case first == "":
			first = r.SHA256
		case r.SHA256 != first && virtual:
			return errors.New("two runs on the virtual cluster end with other bits: something in it depends on chance")
		case r.SHA256 != first && j.Timeless():
			return fmt.Errorf("Timeless is claimed, and on %T it ends with other bits than on the virtual clock", net)
		}
	}
	return nil
}

// marked is a job with marks, and whether the mode takes any.
func marked(m train.Mode) (j *train.Job, ok bool, err error) {
	if j, err = World(m); err != nil || only(j) {
		return j, false, err
	}
	if j.CheckpointEvery = 6; j.Mode.Traits(j).Coordinator {
		j.CheckpointEvery = 2
	}
	if err := j.Check(); err != nil {
		return j, false, nil
	}
	return j, true, nil
}

// resume: a run that goes on from any of its checkpoints ends as one that was not
// stopped, and there are checkpoints.
func resume(m train.Mode) error {
	j, ok, err := marked(m)
	if err != nil || !ok {
		return err
	}
	whole, err := run(j, virtual(0), nil)
	if err != nil {
		return err
	}
	if len(whole.states) == 0 {
		return fmt.Errorf("no checkpoint in %d updates with checkpoint_every=%d", j.Updates, j.CheckpointEvery)
	}
	for _, st := range whole.states {
		b, err := st.Encode(nil, j.Model.Layout())
		if err != nil {
			return err
		}
		back, err := checkpoint.Decode(b, j.Model.Layout())
		if err != nil {
			return err
		}
		at := back.Ints["version"]
		j, _, _ := marked(m)
		r, err := run(j, virtual(time.Duration(back.Ints["nanoseconds"])), back)
		if err != nil {
			return fmt.Errorf("resumed at update %d: %w", at, err)
		}
		if len(r.evals) > 0 && r.evals[0].Step <= int(at) && !r.evals[0].Last {
			return fmt.Errorf("resumed at update %d it evaluates update %d again: Keep does not take up what it kept", at, r.evals[0].Step)
		}
		if r.SHA256 != whole.SHA256 || r.Final.Step != whole.Final.Step {
			return fmt.Errorf("resumed at update %d it ends with other bits: Keep leaves something out, or takes it up otherwise", at)
		}
	}
	return nil
}

// stop: a run that is asked to stop ends before its last update with a checkpoint,
// from which it goes on to the last.
func stop(m train.Mode) error {
	j, ok, err := marked(m)
	if err != nil || !ok {
		return err
	}
	polls := 0
	j.Updates *= 20
	j.Stopping = func() bool { polls++; return polls > 10 }
	r, err := run(j, virtual(0), nil)
	switch {
	case err != nil:
		return err
	case r.Final.Step >= j.Updates || len(r.states) == 0:
		return fmt.Errorf("asked to stop, it ended at update %d of %d, with %d checkpoints", r.Final.Step, j.Updates, len(r.states))
	}
	stopped := false
	for _, rep := range r.Reports {
		stopped = stopped || rep.Stopped
	}
	if !stopped {
		return errors.New("no rank reports that it was stopped")
	}
	last := r.states[len(r.states)-1]
	on, _, _ := marked(m)
	on.Updates = r.Final.Step + 12
	if r, err = run(on, virtual(time.Duration(last.Ints["nanoseconds"])), last); err != nil {
		return fmt.Errorf("going on after a stop: %w", err)
	}
	if r.Final.Step != on.Updates {
		return fmt.Errorf("after a stop it went on to update %d, not %d", r.Final.Step, on.Updates)
	}
	return nil
}

// average: a moving average of the parameters changes what is evaluated and not what
// is trained, and a run that goes on from a checkpoint goes on with it; or it is refused.
func average(m train.Mode) error {
	with := func(ema float64, every int) (*train.Job, error) {
		j, ok, err := marked(m)
		if err != nil || !ok {
			return nil, err
		}
		j.EMA, j.EMAEvery = ema, every
		return j, nil
	}
	j, err := with(0.9, 2)
	if err != nil || j == nil {
		return err
	}
	if j.Check() != nil {
		return nil
	}
	averaged, err := run(j, virtual(0), nil)
	if err != nil {
		return err
	}
	j, _ = with(0, 0)
	plain, err := run(j, virtual(0), nil)
	switch {
	case err != nil:
		return err
	case averaged.SHA256 == plain.SHA256 || !averaged.Final.Averaged || plain.Final.Averaged:
		return errors.New("with an average of the parameters the end is that without")
	case len(averaged.states) != len(plain.states):
		return fmt.Errorf("with an average there are %d checkpoints, without %d", len(averaged.states), len(plain.states))
	}
	for i, st := range averaged.states {
		if !slices.Equal(st.Vectors["param"], plain.states[i].Vectors["param"]) {
			return errors.New("with an average of the parameters other parameters are trained")
		}
		j, _ := with(0.9, 2)
		r, err := run(j, virtual(time.Duration(st.Ints["nanoseconds"])), st)
		if err != nil {
			return fmt.Errorf("resumed at update %d with an average: %w", st.Ints["version"], err)
		}
		if r.SHA256 != averaged.SHA256 {
			return fmt.Errorf("resumed at update %d it ends with another average", st.Ints["version"])
		}
	}
	return nil
}

// anyNet is the net that a mode's job runs on, virtual if it can.
func anyNet(j *train.Job) comm.Net {
	if only(j) {
		return &local.Net{}
	}
	return virtual(0)
}

// ledger: gradients sent are applied, rejected or held, and there are some.
func ledger(m train.Mode) error {
	j, err := World(m)
	if err != nil {
		return err
	}
	r, err := run(j, anyNet(j), nil)
	if err != nil {
		return err
	}
	var sent, applied, rejected, held uint64
	for _, rep := range r.Reports {
		sent, applied = sent+rep.Sent, applied+rep.Ledger.Applied
		rejected, held = rejected+rep.Ledger.Rejected, held+rep.Ledger.Held
	}
	if sent != applied+rejected+held || sent == 0 {
		return fmt.Errorf("%d gradients are sent, %d applied, %d rejected and %d held", sent, applied, rejected, held)
	}
	return nil
}

// told: the last evaluation tells the bytes that went through NICs, up and down.
func told(m train.Mode) error {
	j, err := World(m)
	if err != nil {
		return err
	}
	r, err := run(j, anyNet(j), nil)
	if err != nil {
		return err
	}
	var up, down uint64
	for _, rep := range r.Reports {
		switch t := j.Mode.Traits(j); {
		case t.Servers == 0:
			up += rep.Traffic.SentBytes[comm.Gradient]
			down += rep.Traffic.RecvBytes[comm.Gradient]
		case rep.Role == "server":
			up += rep.Traffic.RecvBytes[comm.Gradient]
			down += rep.Traffic.SentBytes[comm.Parameters]
		}
	}
	if free := j.Mode.Traits(j).Conduct == train.Free; r.Final.BytesUp > up || r.Final.BytesDown > down || !free && (r.Final.BytesUp != up || r.Final.BytesDown != down) {
		return fmt.Errorf("the last evaluation tells %d bytes up and %d down, and %d and %d went", r.Final.BytesUp, r.Final.BytesDown, up, down)
	}
	return nil
}

// death: without one of its workers, which dies at one of several instants, a run
// goes on to its end or, where that is not claimed, ends with an error that names the
// rank.
func death(m train.Mode) error {
	j, err := World(m)
	if err != nil || only(j) {
		return err
	}
	whole, err := run(j, virtual(0), nil)
	if err != nil {
		return err
	}
	end := 0.0
	for _, rep := range whole.Reports {
		end = math.Max(end, rep.Seconds)
	}
	victim := j.Workers - 1
	for _, share := range []float64{0.1, 0.4, 0.7} {
		j, _ := World(m)
		net := virtual(0)
		net.Faults = []nemesis.Act{{Rank: victim, At: time.Duration(share * end * 1e9)}}
		r, err := run(j, net, nil)
		outlives := j.Mode.Traits(j).Outlives
		var dead *comm.PeerError
		switch {
		case outlives && err != nil:
			return fmt.Errorf("Outlives is claimed, and a death at %.0f %% of the run ends it: %w", 100*share, err)
		case outlives && r.Final.Step == 0:
			return fmt.Errorf("after a death at %.0f %% of the run nothing was evaluated", 100*share)
		case !outlives && err == nil:
			return fmt.Errorf("Outlives is not claimed, and the run goes on after a death at %.0f %% of it", 100*share)
		case !outlives && !errors.As(err, &dead) && !strings.Contains(err.Error(), fmt.Sprintf("rank %d", victim)):
			return fmt.Errorf("after a death at %.0f %% of the run the error does not name rank %d: %w", 100*share, victim, err)
		}
	}
	return nil
}
