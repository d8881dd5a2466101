package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/gradlab/gradlab/experiments/figure"
)

// WriteTables writes the report as text: what we reach and, if there was a
// peer, how it compares. style is that of [figure.Table.Write].
func (r *TrainReport) WriteTables(w io.Writer, style string) error {
	m := r.Machine
	if _, err := fmt.Fprintf(w, "%s, cores %d, %v, %s\n", m.CPU, m.Cores, m.Features, m.Go); err != nil {
		return err
	}
	if err := r.writeOurs(w, style); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if len(row.Peers) > 0 {
			return r.writePeers(w, style)
		}
	}
	return nil
}

func (r *TrainReport) writeOurs(w io.Writer, style string) error {
	header := []string{"model", "batch", "threads", "rate", "±", "unit", "ms/step", "forward ms", "backward ms", "update ms", "GFLOP/s", "of best GEMM"}
	var rows [][]string
	for _, t := range r.Rows {
		if t.Error != "" {
			rows = append(rows, []string{t.Name, strconv.Itoa(t.Batch), strconv.Itoa(t.Threads), "failed"})
			continue
		}
		rows = append(rows, []string{
			t.Name, strconv.Itoa(t.Batch), strconv.Itoa(t.Threads), digits(t.Rate.Median), percent(t.Rate.Half()), t.Unit,
			millis(t.StepMS), millis(t.Forward), millis(t.Backward), millis(t.Update),
			fmt.Sprintf("%.0f", t.GFLOPS), fmt.Sprintf("%s of %.0f", percent(t.GemmShare), t.GemmGFLOPS),
		})
	}
	return figure.Table{Header: header, Rows: rows, Right: figure.AllButFirst(len(header))}.Write(w, style, 0)
}

func (r *TrainReport) writePeers(w io.Writer, style string) error {
	header := []string{"model", "batch", "threads", "unit", "ours"}
	var variants []string
	for _, t := range r.Rows {
		for _, p := range t.Peers {
			if !slices.Contains(variants, p.Name) {
				variants = append(variants, p.Name)
				header = append(header, "torch "+p.Name)
			}
		}
	}
	header = append(header, "ratio to the best", "least to most")
	var rows [][]string
	for _, t := range r.Rows {
		cells := []string{t.Name, strconv.Itoa(t.Batch), strconv.Itoa(t.Threads), t.Unit, digits(t.Rate.Median)}
		for _, v := range variants {
			switch i := slices.IndexFunc(t.Peers, func(p Peer) bool { return p.Name == v }); {
			case i < 0:
				cells = append(cells, "")
			case t.Peers[i].Rate.Median == 0:
				cells = append(cells, "failed")
			default:
				cells = append(cells, digits(t.Peers[i].Rate.Median))
			}
		}
		if p := t.best(); p != nil {
			cells = append(cells, fmt.Sprintf("%.2f", p.Ratio.Median), fmt.Sprintf("%.2f–%.2f", p.Ratio.Min, p.Ratio.Max))
		}
		rows = append(rows, cells)
	}
	return figure.Table{Header: header, Rows: rows, Right: figure.AllButFirst(len(header))}.Write(w, style, 0)
}

// digits writes a number with three digits or more.
func digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func millis(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
