package bench

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gradlab/gradlab/experiments/figure"
)

// WriteTables writes the report as text, a table for each section. style is that
// of [figure.Table.Write].
func (r *WireReport) WriteTables(w io.Writer, style string) error {
	m := r.Machine
	if _, err := fmt.Fprintf(w, "%s, cores %d, %v, %s\n", m.CPU, m.Cores, m.Features, m.Go); err != nil {
		return err
	}
	for _, p := range r.Peers {
		if _, err := fmt.Fprintln(w, p); err != nil {
			return err
		}
	}
	for _, t := range []func(io.Writer, string) error{r.writeAllReduces, r.writeStreams, r.writeRoundTrips, r.writeSteps} {
		if err := t(w, style); err != nil {
			return err
		}
	}
	return nil
}

func (r *WireReport) writeAllReduces(w io.Writer, style string) error {
	header := []string{"all-reduce", "procs", "bytes", "µs", "±", "bus GB/s", "CPU s/GB", "topology"}
	first := len(header)
	peers := map[string]int{} // columns of ratios
	for _, row := range r.AllReduces {
		if row.Topology == "" && peers[row.Name] == 0 {
			peers[row.Name] = len(header)
			header = append(header, "times "+row.Name)
		}
	}
	var rows [][]string
	for _, row := range r.AllReduces {
		cells := make([]string, len(header))
		copy(cells, []string{row.Name, strconv.Itoa(row.Procs), sizeText(row.Bytes)})
		if row.Error != "" {
			cells[3] = "failed"
		} else {
			copy(cells[3:first], []string{digits(row.Micros.Median), percent(row.Micros.Half()), fmt.Sprintf("%.2f", row.BusGBs), fmt.Sprintf("%.2f", row.CPU), row.Topology})
		}
		for name, s := range row.Ratio {
			cells[peers[name]] = times(s)
		}
		rows = append(rows, cells)
	}
	return section(w, style, header, rows)
}

func (r *WireReport) writeStreams(w io.Writer, style string) error {
	var rows [][]string
	for _, row := range r.Streams {
		cells := []string{row.Name, sizeText(row.Bytes), "failed"}
		if row.Error == "" {
			cells = append(cells[:2], fmt.Sprintf("%.2f", row.GBs.Median), percent(row.GBs.Half()), fmt.Sprintf("%.2f", row.CPU), "", "")
			if row.Name != bareTCP && row.Name != bareTLS {
				cells[5], cells[6] = percent(row.Share.Median), fmt.Sprintf("%.1f", row.Allocs)
			}
		}
		rows = append(rows, cells)
	}
	return section(w, style, []string{"stream", "message", "GB/s", "±", "CPU s/GB", "of bare", "allocations"}, rows)
}

func (r *WireReport) writeRoundTrips(w io.Writer, style string) error {
	var rows [][]string
	for _, row := range r.RoundTrips {
		cells := []string{row.Name, sizeText(row.Bytes), "failed"}
		if row.Error == "" {
			cells = append(cells[:2], digits(row.Micros.Median), percent(row.Micros.Half()))
		}
		rows = append(rows, cells)
	}
	return section(w, style, []string{"round trip", "message", "µs", "±"}, rows)
}

func (r *WireReport) writeSteps(w io.Writer, style string) error {
	header := []string{"step", "over", "ms", "±"}
	var peer string
	for _, row := range r.Steps {
		for name := range row.Ratio {
			peer = name
		}
	}
	if peer != "" {
		header = append(header, "times "+peer)
	}
	var rows [][]string
	for _, row := range r.Steps {
		cells := []string{row.Name, row.Over, "failed"}
		if row.Error == "" {
			cells = append(cells[:2], millis(row.Millis.Median), percent(row.Millis.Half()))
			if s, ok := row.Ratio[peer]; ok {
				cells = append(cells, times(s))
			}
		}
		rows = append(rows, cells)
	}
	return section(w, style, header, rows)
}

// section writes a table unless it is empty.
func section(w io.Writer, style string, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	return figure.Table{Header: header, Rows: rows, Right: figure.AllButFirst(len(header))}.Write(w, style, 0)
}

func times(s Spread) string { return fmt.Sprintf("%.2f", s.Median) }

// sizeText writes a number of bytes in the largest unit that fits it.
func sizeText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
