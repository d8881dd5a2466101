package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
)

// AllReduceRow is one contender's all-reduce of one size.
type AllReduceRow struct {
	Procs    int               `json:"procs"`
	Bytes    int               `json:"bytes"`
	Name     string            `json:"name"`               // ours are called by their links
	Topology string            `json:"topology,omitempty"` // of ours, as it was chosen
	Micros   Spread            `json:"microseconds"`       // of an all-reduce
	BusGBs   float64           `json:"bus_gb_s"`           // bytes/time·2(n−1)/n at the median
	CPU      float64           `json:"cpu_s_gb"`           // processor seconds of all a GB, of 2(n−1)·bytes; 0: not known
	Ratio    map[string]Spread `json:"ratio,omitempty"`    // times as fast as a peer
	Error    string            `json:"error,omitempty"`
}

// allReduces measures all sizes in groups of n.
func (o *WireOptions) allReduces(ctx context.Context, r *WireReport, n int) error {
	var ts []*talker
	defer func() {
		for _, t := range ts {
			if t.group != nil {
				t.end()
			}
		}
	}()
	add := func(name string, ours bool, g *group, err error) {
		ts = append(ts, &talker{group: g, name: name, ours: ours, err: err})
	}
	o.Logf("all-reduces of %d processes: starting them", n)
	for _, l := range o.Links {
		g, err := o.startOurs(ctx, rankOptions{World: n, Links: l, Topology: o.Topology})
		add(string(l), true, g, err)
	}
	if o.Torch != nil {
		g, version, err := o.Torch.startGloo(ctx, n)
		r.know(version)
		add("gloo", false, g, err)
	}
	if o.OpenMPI != nil {
		for _, over := range openMPIRoads {
			g, version, err := o.OpenMPI.start(ctx, n, over)
			r.know(version)
			add("ompi "+over, false, g, err)
		}
	}
	for _, size := range o.Sizes {
		o.Logf("all-reduces of %d processes: %s", n, sizeText(size))
		for _, t := range ts {
			t.command = fmt.Sprintf("allreduce %d", size)
		}
		all := o.compare(ctx, ts)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i, t := range ts {
			row := AllReduceRow{Procs: n, Bytes: size, Name: t.name}
			if t.ours {
				row.Topology = chosen(o.Topology, n, size)
			}
			if t.err != nil {
				row.Error = t.err.Error()
			} else {
				row.Micros, row.Ratio = all[i].micros(), ratios(ts, all, i)
				row.CPU = all[i].cpu / (2 * float64(n-1) * float64(size)) * 1e9
				row.BusGBs = float64(size) * 2 * float64(n-1) / float64(n) / row.Micros.Median / 1e3
			}
			r.AllReduces = append(r.AllReduces, row)
		}
	}
	return ends(ts)
}

// ends joins what ended groups early.
func ends(ts []*talker) error {
	var failed []error
	for _, t := range ts {
		failed = append(failed, t.err)
	}
	return errors.Join(failed...)
}

// chosen names what a topology comes to for a size.
func chosen(spec string, n, size int) string {
	t := collective.Topologies.MustParse(spec)
	if a, ok := t.(collective.Auto); ok {
		t = a.Choose(n, size)
	}
	return collective.Topologies.Spec(t)
}
