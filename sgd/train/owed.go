package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// A stop evaluates nothing: whoever asked for it may end this process soon. An
// evaluation that is due then, or under way, is owed: its parameters go into the
// checkpoint, and the run that goes on makes it before anything else.

// owed is an evaluation that is still to be made.
type owed struct {
	eval   record.Eval
	params wire.Vector
}

const keyOwed = "owed"

// errOwed breaks off an evaluation because the run is to stop.
var errOwed = errors.New("the run is to stop before it is evaluated")

// stops says whether the run, of so many updates, has been asked to stop, and does so
// soon.
func (o *Observer) stops(updates int) bool {
	j := o.Job
	return j.asked.Load() && !j.isReached() && j.StopRule(o.rank.h.Virtual(), updates) != StopAtMark
}

// checkMetrics refuses metrics that cannot be recorded, and gives Until the model's own.
func checkMetrics(j *Job) error {
	metrics := j.Model.Metrics()
	if err := sgd.CheckMetrics(metrics); err != nil {
		return fmt.Errorf("the model's metrics: %w", err)
	}
	goal, err := j.Until.Among(metrics)
	if err == nil && j.Until.Asked() {
		j.Until = goal
	}
	return err
}

// judge evaluates parameters, which it takes over, and tells of it.
func (o *Observer) judge(ctx context.Context, e record.Eval, params wire.Vector) error {
	score, err := o.evaluate(ctx, e.Step, params.F())
	if errors.Is(err, errOwed) {
		o.owed = append(o.owed, owed{e, params})
		return nil
	}
	defer params.Release()
	if err != nil {
		return err
	}
	if e.Values, err = record.NewValues(o.Job.Model.Metrics(), score); err != nil {
		return err
	}
	if x := score.Error(0); x-x == 0 {
		e.Error = x
	}
	o.Reached = (o.Job.Until.Reached(e) || o.Settled != nil && o.Settled(e)) && !e.Last
	if e.Last || o.Reached {
		o.end(e, params)
	}
	o.Sink.Eval(e)
	if o.Reached {
		return o.reach(ctx, o.rank.h)
	}
	return nil
}

// end notes what the run came to.
func (o *Observer) end(e record.Eval, params wire.Vector) {
	o.Final, o.Params, o.SHA256 = e, slices.Clone(params.F()), Hash(params.F())
}

// settle makes the evaluations that are owed, unless the run was stopped: then the
// last one is not made, and the others are in the checkpoint.
func (o *Observer) settle(ctx context.Context) error {
	stopped := slices.ContainsFunc(o.Reports, func(r record.RankReport) bool { return r.Stopped })
	list, kept := o.owed, o.kept
	o.owed = nil
	o.Job.asked.Store(false)
	for i, d := range list {
		switch {
		case stopped && d.eval.Last:
			o.Unjudged = true
			o.end(d.eval, d.params)
			fallthrough
		case stopped && i < kept, o.Reached:
			d.params.Release()
		default:
			if err := o.judge(ctx, d.eval, d.params); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveOwed puts what is owed into the run's state. Bytes and, on a real clock, seconds
// are those since the checkpoint: less than none.
func (o *Observer) saveOwed(all *checkpoint.State) error {
	o.kept = len(o.owed)
	n := 0
	for _, d := range o.owed {
		e := d.eval
		if e.Last {
			continue
		}
		e.BytesUp -= uint64(all.Ints[keyBytesUp])
		e.BytesDown -= uint64(all.Ints[keyBytesDown])
		if !o.rank.h.Virtual() {
			e.Seconds -= float64(all.Ints[keyNanoseconds]) / 1e9
		}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		all.Bytes[checkpoint.Key(keyOwed, n)+"/eval"], all.Vectors[checkpoint.Key(keyOwed, n)+"/param"] = b, slices.Clone(d.params.F())
		n++
	}
	return nil
}

// takeOwed takes what is owed out of the state that the run begins from.
func takeOwed(s *checkpoint.State, size int) (out []owed, err error) {
	for i := 0; ; i++ {
		name := checkpoint.Key(keyOwed, i)
		b, ok := s.Bytes[name+"/eval"]
		if !ok {
			return out, nil
		}
		d := owed{params: wire.NewVector(size)}
		if err := json.Unmarshal(b, &d.eval); err != nil {
			return nil, fmt.Errorf("the checkpoint's %s/eval: %w", name, err)
		}
		if err := s.Vector(name+"/param", d.params.F()); err != nil {
			return nil, err
		}
		delete(s.Bytes, name+"/eval")
		delete(s.Vectors, name+"/param")
		out = append(out, d)
	}
}

// payOwed makes the evaluations that an earlier leg of the run owes.
func (o *Observer) payOwed(ctx context.Context, list []owed) error {
	for i, d := range list {
		if o.Reached {
			d.params.Release()
			continue
		}
		if err := o.judge(ctx, d.eval, d.params); err != nil {
			return fmt.Errorf("evaluation %d that an earlier leg left: %w", i, err)
		}
	}
	return nil
}
