package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
)

// Box is the answers of all tasks as a matrix, a row for each task.
type Box struct {
	Columns []string
	Rows    []BoxRow
}

// BoxRow is the answers of one task.
type BoxRow struct {
	Where string // what tells the task from the others
	Slug  string // of its section
	Cells []BoxCell
}

// BoxCell is the winner in one thing that is asked for; empty where none is known.
type BoxCell struct {
	Column         string
	Winner, Figure string
	Notes          []string // the next one, and what cannot be told from the winner
	Rows           int      // that it stands for, where all tasks have the same; 0: an earlier row has it
}

// Box is what the page begins with: who is soonest, who has the fewest bytes and who is the
// most accurate, and how the soonest compares with one worker alone.
func (r *Report) Box() *Box {
	if len(r.Tasks) == 0 {
		return nil
	}
	goal := r.Tasks[0].Target
	to := ""
	same := true
	for _, t := range r.Tasks {
		same = same && t.Target == goal
	}
	switch {
	case same && goal.Asked():
		to = " to " + r.Tasks[0].Goal()
	case !same:
		to = " to the target"
	}
	all := []string{"soonest" + to, "fewest bytes" + to, goal.Metric.Winner(), store.Alone}
	b := &Box{}
	used := make([]bool, len(all))
	for _, t := range r.Tasks {
		s := t.Summary()
		row := BoxRow{Where: t.Facet, Slug: t.Slug()}
		if row.Where == "" && len(r.Tasks) > 1 {
			row.Where = t.Title()
		}
		row.Cells = []BoxCell{
			s.Answers.Soonest.cell(progress.Seconds), s.Answers.FewestBytes.cell(bytesText), s.Answers.MostAccurate.cell(t.score), aloneCell(t, s),
		}
		for i := range row.Cells {
			row.Cells[i].Column = all[i]
			used[i] = used[i] || row.Cells[i].Winner != ""
		}
		b.Rows = append(b.Rows, row)
	}
	for i, name := range all {
		if used[i] {
			b.Columns = append(b.Columns, name)
		}
	}
	for k, row := range b.Rows {
		var cells []BoxCell
		for i, c := range row.Cells {
			if used[i] {
				cells = append(cells, c)
			}
		}
		b.Rows[k].Cells = cells
	}
	for i := range b.Columns {
		same := true
		for _, row := range b.Rows {
			same = same && row.Cells[i].is(b.Rows[0].Cells[i])
		}
		for k := range b.Rows {
			switch {
			case !same:
				b.Rows[k].Cells[i].Rows = 1
			case k == 0:
				b.Rows[k].Cells[i].Rows = len(b.Rows)
			}
		}
	}
	if len(b.Columns) == 0 {
		return nil
	}
	return b
}

func (c BoxCell) is(o BoxCell) bool {
	return c.Winner == o.Winner && c.Figure == o.Figure && slices.Equal(c.Notes, o.Notes)
}

// cell words a winner.
func (w *Winner) cell(word func(float64) string) (c BoxCell) {
	if w == nil {
		return c
	}
	c.Winner, c.Figure = w.Configuration, word(float64(w.Value))
	if low, high := float64(w.Low), float64(w.High); finite(low) && low < high {
		end := "never"
		if finite(high) {
			end = word(high)
		}
		c.Figure += fmt.Sprintf(" (%s to %s)", word(low), end)
	}
	if p := float64(w.Probability); finite(p) {
		c.Notes = append(c.Notes, fmt.Sprintf("first with probability %.2f", p))
	}
	switch ratio := float64(w.Ratio); {
	case w.RunnerUp == "":
	case !finite(ratio):
		c.Notes = append(c.Notes, "no other gets there")
	case math.Abs(ratio-1) < 0.05:
		c.Notes = append(c.Notes, "next "+w.RunnerUp+", "+word(ratio*float64(w.Value)))
	default:
		c.Notes = append(c.Notes, fmt.Sprintf("next %s, %.1f×", w.RunnerUp, ratio))
	}
	if len(w.Ties) > 0 {
		c.Notes = append(c.Notes, "not told from "+few(w.Ties))
	}
	return c
}

// aloneCell words the time of one worker alone, and the speed-up of the soonest over it.
func aloneCell(t *Task, s Summary) (c BoxCell) {
	if s.Baseline == nil || !finite(float64(s.Baseline.Seconds)) {
		return c
	}
	c.Winner = progress.Seconds(float64(s.Baseline.Seconds))
	if w := s.Answers.Soonest; w != nil && w.Value > 0 {
		c.Notes = append(c.Notes, "speed-up of the soonest "+store.SpeedUp(float64(s.Baseline.Seconds/w.Value)))
	}
	return c
}

// busy and coded are the shares of a step from which on the network is said to be
// saturated, and coding to be most of it.
const (
	busy  = 0.8
	coded = 0.5
)

// bottlenecks are sentences on what steps of configurations take most of, where that
// decides what can matter.
func bottlenecks(t *Task) (out []string) {
	var saturated, coding []string
	wire, most := math.Inf(1), 0.0
	choices := t.choices()
	for _, c := range choices {
		var onWire, inCodec []float64
		for _, trial := range c.Trials {
			w, k, ok := trial.shares()
			if ok {
				onWire, inCodec = append(onWire, w), append(inCodec, k)
			}
		}
		if len(onWire) == 0 {
			continue
		}
		if w := stats.Summarize(onWire).Mean; w >= busy {
			saturated, wire = append(saturated, c.Label), min(wire, w)
		}
		if k := stats.Summarize(inCodec).Mean; k >= coded {
			coding, most = append(coding, c.Label), max(most, k)
		}
	}
	switch n := len(saturated); {
	case n > 0 && n == len(choices):
		out = append(out, fmt.Sprintf("The network is saturated: %.0f %% of a step or more is on the wire, so policies and schedules hardly matter here, and bytes do.", 100*wire))
	case n > 0:
		out = append(out, fmt.Sprintf("The network is saturated with %s: %.0f %% of a step or more is on the wire.", few(saturated), 100*wire))
	}
	if len(coding) > 0 {
		out = append(out, fmt.Sprintf("Coding is up to %.0f %% of a step with %s: if that is a prototype, device.codec=free says what it would take without.", 100*most, few(coding)))
	}
	return out
}

// shares are the parts of a worker's step on the wire, and in encoding and decoding, of all
// workers together; not ok where they were not measured.
func (t *Trial) shares() (wire, coding float64, ok bool) {
	whole := 0.0
	for _, r := range t.Ranks {
		if r.Role != "worker" || r.Time == nil {
			continue
		}
		x := r.Spent()
		wire += x.Wire
		coding += x.Encode + x.Decode
		whole += x.Compute + x.Encode + x.Decode + x.Wire + x.Wait + x.Rest
	}
	if !(whole > 0) {
		return 0, 0, false
	}
	return wire / whole, coding / whole, true
}
