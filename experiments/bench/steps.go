package bench

import (
	"context"
	"errors"
	"fmt"
)

// StepRow is a training step of the MLP 784-512-256-10 in two processes, with 32
// samples in each, from one update to the next: gradient, exchange, update.
type StepRow struct {
	Name   string            `json:"name"` // ours: spec text of the codec; peers: their hook
	Over   string            `json:"over"` // links, or the peer
	Millis Spread            `json:"milliseconds"`
	Ratio  map[string]Spread `json:"ratio,omitempty"` // times as fast as a peer's hook
	Error  string            `json:"error,omitempty"`
}

// glooHooks are DistributedDataParallel's: "none" trains without exchange.
var glooHooks = []string{"none", "allreduce", "fp16", "powersgd1", "powersgd4"}

// steps measures training steps with every codec over every link. Each codec has
// its turns beside the peer's plain all-reduce; the other hooks come at the end.
func (o *WireOptions) steps(ctx context.Context, r *WireReport) error {
	var gloo *talker
	if o.Torch != nil {
		g, version, err := o.Torch.startGloo(ctx, 2)
		if g != nil {
			defer g.end()
		}
		r.know(version)
		gloo = &talker{group: g, name: "gloo allreduce", command: "step allreduce", err: err}
	}
	groups := make([]*talker, len(o.Links))
	for i, l := range o.Links {
		g, err := o.startOurs(ctx, rankOptions{World: 2, Links: l, Topology: o.Topology, Observer: true})
		if g != nil {
			defer g.end()
		}
		groups[i] = &talker{group: g, name: string(l), ours: true, err: err}
	}
	var failed []error
	measure := func(name string, over []string, ts []*talker) {
		o.Logf("steps: %s", name)
		if gloo != nil {
			ts = append(ts, gloo)
		}
		all := o.compare(ctx, ts)
		if ctx.Err() != nil {
			return
		}
		for i := range over {
			row := StepRow{Name: name, Over: over[i]}
			if ts[i].err != nil {
				row.Error = ts[i].err.Error()
				failed = append(failed, ts[i].err)
			} else {
				row.Millis, row.Ratio = all[i].spread(1e3), ratios(ts, all, i)
			}
			r.Steps = append(r.Steps, row)
		}
	}
	for _, codec := range o.Codecs {
		var over []string
		var ts []*talker
		for i, t := range groups {
			ts = append(ts, &talker{group: t.group, name: t.name, ours: true, err: t.err, command: "step " + codec})
			over = append(over, string(o.Links[i]))
		}
		measure(codec, over, ts)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if gloo == nil {
		return errors.Join(failed...)
	}
	for _, hook := range glooHooks {
		t := &talker{group: gloo.group, name: "gloo " + hook, err: gloo.err, command: "step " + hook}
		o.Logf("steps: %s", t.name)
		all := o.compare(ctx, []*talker{t})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		row := StepRow{Name: hook, Over: "gloo", Millis: all[0].spread(1e3)}
		if t.err != nil {
			row.Error = t.err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", t.name, t.err))
		}
		r.Steps = append(r.Steps, row)
	}
	return errors.Join(failed...)
}
