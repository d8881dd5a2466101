package virtual

import (
	"fmt"
	"io"
	"slices"

	"github.com/gradlab/gradlab/comm/outside"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
)

// Result is what a program would take on a cluster. Seconds are virtual.
type Result struct {
	Ranks      int               `json:"ranks"`
	Cluster    map[string]string `json:"cluster"` // keys and values
	Speed      float64           `json:"speed"`
	Seconds    float64           `json:"seconds"`    // until the last rank's end
	Computing  float64           `json:"computing"`  // of main threads, the mean of ranks
	Waiting    float64           `json:"waiting"`    // likewise: for collectives, and for threads that encode
	BytesSent  uint64            `json:"bytes_sent"` // by the rank that sent the most
	Steps      int               `json:"steps"`      // backward passes that exchanged
	Step       float64           `json:"step"`       // the median time from the end of one to the end of the next; 0: there was one at most
	Operations []Operation       `json:"operations"`
}

// Operation is what rank 0 began of one kind.
type Operation struct {
	Name   string `json:"name"`
	Number uint64 `json:"number"`
	Bytes  uint64 `json:"bytes"`
}

func newResult(c config.Config, speed float64, ranks []outside.Rank) *Result {
	r := &Result{Ranks: len(ranks), Cluster: map[string]string{}, Speed: speed}
	for _, k := range config.NetworkKeys() {
		if v := c.Show(k); v != config.Default().Show(k) || k == "network.bandwidth" || k == "network.latency" || k == "topology" {
			r.Cluster[k] = v
		}
	}
	var steps []float64
	for i, x := range ranks {
		r.Seconds = max(r.Seconds, x.Seconds)
		r.Computing += x.Computing / float64(len(ranks))
		r.Waiting += x.Waiting / float64(len(ranks))
		r.BytesSent = max(r.BytesSent, x.BytesSent)
		r.Steps = max(r.Steps, len(x.Steps))
		for s := 1; s < len(x.Steps); s++ {
			steps = append(steps, x.Steps[s]-x.Steps[s-1])
		}
		if i > 0 {
			continue
		}
		for name, n := range x.Operations {
			r.Operations = append(r.Operations, Operation{name, n.Number, n.Bytes})
		}
	}
	slices.SortFunc(r.Operations, func(a, b Operation) int {
		if a.Bytes != b.Bytes {
			return int(min(max(int64(b.Bytes)-int64(a.Bytes), -1), 1))
		}
		return int(int64(b.Number) - int64(a.Number))
	})
	if slices.Sort(steps); len(steps) > 0 {
		r.Step = steps[len(steps)/2]
	}
	return r
}

// Write writes the result as text.
func (r *Result) Write(w io.Writer) error {
	fmt.Fprintf(w, "%d ranks on a virtual cluster:", r.Ranks)
	for _, k := range config.NetworkKeys() {
		if v, ok := r.Cluster[k]; ok {
			fmt.Fprintf(w, " %s=%s", k, v)
		}
	}
	fmt.Fprintf(w, "\ncomputing takes what it took on a core here, divided by %g\n\n", r.Speed)
	share := func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x/max(r.Seconds, 1e-12)) }
	rows := [][]string{
		{"virtual time", progress.Seconds(r.Seconds), ""},
		{"computing", progress.Seconds(r.Computing), share(r.Computing)},
		{"waiting", progress.Seconds(r.Waiting), share(r.Waiting)},
	}
	if r.Steps > 0 {
		rows = append(rows, []string{"steps", fmt.Sprint(r.Steps), ""})
	}
	if r.Step > 0 {
		rows = append(rows, []string{"a step, in the median", progress.Seconds(r.Step), ""})
	}
	rows = append(rows, []string{"sent by a rank, at most", progress.Bytes(r.BytesSent), ""})
	for _, o := range r.Operations {
		rows = append(rows, []string{o.Name, fmt.Sprintf("%d of %s", o.Number, progress.Bytes(o.Bytes/max(o.Number, 1))), ""})
	}
	t := figure.Table{Header: []string{"", "", "share"}, Rows: rows, Right: []bool{false, true, true}}
	return t.Write(w, "box", 0)
}
