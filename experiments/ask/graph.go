package ask

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/experiments/figure"
)

// mostRanks is the number of ranks whose neighbours are listed.
const mostRanks = 16

// WriteGraph writes the neighbours and weights of a gossip graph of so many ranks, and its
// spectral gap beside that of all graphs.
func WriteGraph(w io.Writer, g collective.Graph, size int) error {
	period := g.Period(size)
	fmt.Fprintf(w, "%s: %d ranks, repeats after %d step(s)\n\n", collective.Graphs.Spec(g), size, period)
	var rows [][]string
	for step := range period {
		for r := range min(size, mostRanks) {
			m := g.Mix(r, size, step)
			rows = append(rows, []string{strconv.Itoa(step), strconv.Itoa(r), fmt.Sprintf("%.4g", m.Self), edges(m.Out), edges(m.In)})
		}
	}
	t := figure.Table{Header: []string{"step", "rank", "keeps", "sends to", "hears from"}, Rows: rows, Right: []bool{true, true, true}}
	if err := t.Write(w, "box", 0); err != nil {
		return err
	}
	if size > mostRanks {
		fmt.Fprintf(w, "and so on for ranks %d … %d\n", mostRanks, size-1)
	}
	rows = nil
	for _, name := range collective.Graphs.Names() {
		o, _ := collective.Graphs.Proto(name)
		if collective.Graphs.Name(g) == name {
			o = g
		}
		messages := 0
		for step := range o.Period(size) {
			messages = max(messages, len(o.Mix(0, size, step).Out))
		}
		rows = append(rows, []string{collective.Graphs.Spec(o), strconv.Itoa(o.Period(size)), strconv.Itoa(messages),
			strconv.FormatBool(o.Symmetric()), fmt.Sprintf("%.3g", collective.Gap(o, size))})
	}
	fmt.Fprintln(w, "\nthe spectral gap of a step, 1 − ρ, of all graphs:")
	t = figure.Table{Header: []string{"graph", "period", "messages a rank", "symmetric", "gap"}, Rows: rows, Right: []bool{false, true, true, false, true}}
	return t.Write(w, "box", 0)
}

func edges(es []collective.Edge) string {
	s := ""
	for i, e := range es {
		if i == 6 {
			return s + fmt.Sprintf(" and %d more", len(es)-i)
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%d at %.4g", e.Rank, e.Weight)
	}
	return s
}
