package reproduce

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments/figure"
)

// pattern is who carries how much, and who waits: the profile of the
// communication pattern that the source leaves to future work, of its runs on
// Piz Daint.
func (TFPS) pattern(ctx context.Context, l *Lab, r *Report) error {
	const steps = 5
	s := tfSystems[0]
	table := figure.Table{Title: "Piz Daint: the pattern of communication, a step",
		Header: []string{"GPUs", "servers", "MB into a server", "into the busiest", "NICs in use", "the busiest", "workers wait"}}
	for _, p := range s.points {
		if p.replicated || p.gpus < 8 || p.gpus == 16 || p.gpus == 64 {
			continue
		}
		c, err := l.weightless(steps, s.keys(p)...)
		if err != nil {
			return err
		}
		m, err := l.measured(ctx, c)
		if err != nil {
			return err
		}
		end := m.Ends[len(m.Ends)-1]
		var in, busy, wait []float64
		for _, rank := range m.Reports {
			switch rank.Role {
			case "server":
				in = append(in, float64(rank.Traffic.RecvBytes[comm.Gradient])/steps/1e6)
			case "worker":
				t := rank.Spent()
				wait = append(wait, 100*(t.Wire+t.Wait)/rank.Seconds)
			}
		}
		for _, l := range m.Links {
			if l.Kind == "nic" && l.Bytes > 0 {
				busy = append(busy, 100*l.Busy.Seconds()/end)
			}
		}
		table.Rows = append(table.Rows, []string{fmt.Sprint(p.gpus), fmt.Sprint(p.servers), fmt.Sprintf("%.0f", stat.Mean(in, nil)), fmt.Sprintf("%.0f", floats.Max(in)),
			fmt.Sprintf("%.0f %%", stat.Mean(busy, nil)), fmt.Sprintf("%.0f %%", floats.Max(busy)), fmt.Sprintf("%.0f %%", stat.Mean(wait, nil))})
	}
	r.Tables = append(r.Tables, table)
	r.Notes = append(r.Notes, "the pattern: a tensor lives whole on one server, so with 116 servers the one that has the largest takes ten times what they take on average; its NIC is hardly ever idle, the others' are half of the time, and all workers wait for it. Tensors that are cut, and rings, have no such place")
	return nil
}
