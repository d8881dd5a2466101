package experiments

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Record is what a run's folder holds.
type Record struct {
	Folder string         `json:"folder"`
	Status Status         `json:"status"`
	Config map[string]any `json:"config"`
	Env    map[string]any `json:"env"`
	Evals  []record.Eval  `json:"evals"`
	Result *Result        `json:"result,omitempty"`
	About  About          `json:"about,omitzero"`

	Ranks []record.RankReport `json:"-"`
}

// ReadRecord reads a run's folder.
func ReadRecord(path string) (*Record, error) {
	rec := &Record{Folder: path}
	if err := readJSON(filepath.Join(path, "status.json"), &rec.Status); err != nil {
		var inside []string
		_ = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "status.json" && len(inside) < 10 {
				inside = append(inside, filepath.Dir(p))
			}
			return nil
		})
		if len(inside) > 0 {
			return nil, fmt.Errorf("%s is no run folder, but holds some:\n  %s", path, strings.Join(inside, "\n  "))
		}
		return nil, fmt.Errorf("%s is no run folder: %w", path, err)
	}
	if err := rec.Status.Check(path); err != nil {
		return nil, err
	}
	b, err := regular.ReadFile(filepath.Join(path, "config.yaml"), regular.Any)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(b, &rec.Config); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, "config.yaml"), err)
	}
	_ = readJSON(filepath.Join(path, "env.json"), &rec.Env)
	m, _ := regular.ReadFile(filepath.Join(path, metricsFile), regular.Any)
	for _, x := range ParseMetrics(m) {
		if x.Eval != nil {
			rec.Evals = append(rec.Evals, *x.Eval)
		}
	}
	var r Result
	if err := readJSON(filepath.Join(path, "result.json"), &r); err == nil {
		r.Evals, rec.Result = rec.Evals, &r
	}
	_ = readJSON(filepath.Join(path, "ranks.json"), &rec.Ranks)
	rec.About, _ = ReadAbout(path)
	return rec, nil
}

// step words where the time of a worker's step went, on average.
func (rec *Record) step() string {
	var sum [6]float64
	workers := 0.0
	for _, r := range rec.Ranks {
		if r.Role != "worker" || r.Steps == 0 || r.Time == nil {
			continue
		}
		for i, part := range []float64{r.Time.Compute, r.Time.Encode, r.Time.Decode, r.Time.Wire, r.Time.Wait, r.Time.Rest} {
			sum[i] += part / float64(r.TimedSteps())
		}
		workers++
	}
	if workers == 0 {
		return ""
	}
	var parts []string
	for i, name := range []string{"compute", "encode", "decode", "wire", "wait", "rest"} {
		if x := sum[i] / workers; x > 0 {
			parts = append(parts, name+" "+progress.Seconds(x))
		}
	}
	return strings.Join(parts, ", ")
}

// Write prints the record for people: what differs from the defaults, the
// curve, the result.
func (rec *Record) Write(w io.Writer) error {
	s := rec.Status
	fmt.Fprintf(w, "%s\n%s: %s at step %d\n", rec.Folder, strings.TrimSpace(s.Recipe+" "+s.Run), s.State, s.Step)
	if !rec.About.Empty() {
		fmt.Fprintln(w, regular.Shown(rec.About.line()))
	}
	if s.Error != "" {
		fmt.Fprintf(w, "error: %s\n", regular.Shown(s.Error))
	}
	c, kept := config.Default(), map[string]string{}
	for _, k := range config.Settings() {
		if v := rec.Config[k.Name]; v != nil {
			kept[k.Name] = fmt.Sprint(v)
			if c.Set(k.Name, kept[k.Name]) == nil {
				delete(kept, k.Name)
			}
		}
	}
	fmt.Fprintln(w, "\nconfiguration (what differs from the defaults)")
	for _, k := range config.Settings() {
		if v, ok := kept[k.Name]; ok { // of no value that is allowed now
			fmt.Fprintf(w, "  %-20s %s\n", k.Name, v)
		} else if c.Said(k.Name) {
			fmt.Fprintf(w, "  %-20s %s\n", k.Name, c.Show(k.Name))
		}
	}
	rec.writeCurve(w)
	if r := rec.Result; r != nil {
		fmt.Fprintf(w, "\n%s\n", summary(r))
		fmt.Fprintf(w, "gradients: %d sent = %d applied + %d rejected + %d lost\n", r.Ledger.Sent, r.Ledger.Applied, r.Ledger.Rejected, r.Ledger.Lost)
		if r.Ledger.Torn > 0 {
			fmt.Fprintf(w, "of those lost, %d are parts of pushes of which other shards have theirs\n", r.Ledger.Torn)
		}
		if l := r.Ledger; l.ResidualLost > 0 || l.ResidualUnknown > 0 {
			fmt.Fprintf(w, "error feedback lost a residual of norm %.4g, and those of %d workers that died, which nobody knows\n", l.ResidualLost, l.ResidualUnknown)
		}
		if r.WireBytes > 0 {
			fmt.Fprintf(w, "links carried %s, %s of them through shared memory: %s of gradients and parameters, %s of reports, %s (%.2f %%) of headers, HTTP/2 and control\n",
				progress.Bytes(r.WireBytes), progress.Bytes(r.SharedBytes), progress.Bytes(r.WireBytes-r.ReportBytes-r.OverheadBytes), progress.Bytes(r.ReportBytes),
				progress.Bytes(r.OverheadBytes), 100*float64(r.OverheadBytes)/float64(r.WireBytes))
		}
		if s := rec.step(); s != "" {
			fmt.Fprintf(w, "a worker's step: %s\n", s)
		}
		if n := r.CodecTime; n != "" {
			fmt.Fprintf(w, "virtual time: %s\n", n)
		}
		if n := r.Network; n != nil && len(n.Busiest) > 0 {
			b := n.Busiest[0]
			fmt.Fprintf(w, "network: %.1f %% of all NICs' capacity used; the busiest, %s, carried %s: %.1f %% of its capacity, busy %.1f %% of the time\n",
				100*n.NICs, b.Link, progress.Bytes(b.Bytes), 100*b.Used, 100*b.Busy)
		}
		if len(r.Staleness) > 1 {
			fmt.Fprintln(w, "staleness")
			histogram(w, r.Staleness)
		}
		fmt.Fprintf(w, "parameters %s\n", r.ParamsSHA256)
	}
	return nil
}

// writeCurve prints up to twelve evaluations, and the first metric as a line of blocks.
func (rec *Record) writeCurve(w io.Writer) {
	metrics := rec.Status.Metrics
	if metrics == nil && rec.Result != nil {
		metrics = rec.Result.Metrics
	}
	if len(rec.Evals) == 0 || len(metrics) == 0 {
		return
	}
	var first []float64
	for _, e := range rec.Evals {
		first = append(first, record.Goal{Metric: metrics[0]}.Of(e))
	}
	fmt.Fprintf(w, "\n%s %s\n", metrics[0].Head(), progress.Spark(first))
	line := func(step, at string, of func(sgd.Metric) string, up, down string) {
		fmt.Fprintf(w, "  %8s %10s", step, at)
		for _, m := range metrics {
			fmt.Fprintf(w, " %*s", max(9, len(m.Head())), of(m))
		}
		fmt.Fprintf(w, " %10s %10s\n", up, down)
	}
	line("step", "time", sgd.Metric.Head, "up", "down")
	every := (len(rec.Evals) + 11) / 12
	for i, e := range rec.Evals {
		if i%every == 0 || i == len(rec.Evals)-1 {
			of := func(m sgd.Metric) string { return progress.Value(m, record.Goal{Metric: m}.Of(e)) }
			line(fmt.Sprint(e.Step), progress.Seconds(e.Seconds), of, progress.Bytes(e.BytesUp), progress.Bytes(e.BytesDown))
		}
	}
}

func histogram(w io.Writer, h []uint64) {
	width := (len(h) + 19) / 20
	most := uint64(1)
	var rows []uint64
	for i := 0; i < len(h); i += width {
		n := uint64(0)
		for j := i; j < min(i+width, len(h)); j++ {
			n += h[j]
		}
		rows = append(rows, n)
		most = max(most, n)
	}
	for i, n := range rows {
		name := fmt.Sprint(i * width)
		if width > 1 {
			name = fmt.Sprintf("%d-%d", i*width, (i+1)*width-1)
		}
		fmt.Fprintf(w, "  %7s %8d %s\n", name, n, strings.Repeat("█", int(40*n/most)))
	}
}
