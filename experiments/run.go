// Package experiments makes runs and keeps what they come to: run folders that can be
// resumed, stopped, extended and read again, results, processes launched and joined,
// prices on other networks. What a run is, package config says; what else one may want
// to know of it, package ask.
package experiments

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Options says how and where runs are made; what they compute is Config's
// business.
type Options struct {
	Recipe string
	Out    string // base folder of run folders. Default "runs"
	Resume bool   // continue stopped runs, keep finished ones
	// AllowOlder lets a resumed run go on from the checkpoint before the last one, where
	// that one is damaged.
	AllowOlder bool
	Again      bool // that a finished run is made again is not worth a word
	Implied    bool // nobody asked to resume: that there is nothing to go on with is not worth a word
	Shared     bool // run folders can be read by all users of the machine, not by their owner alone
	Places     config.Places
	Display    *progress.Display // nil: quiet
	Stopping   func() bool       // set by the first Ctrl-C: checkpoint, then end; several goroutines call it
	// Requeue, if set, is true where a stop asks that the run be started again, as SIGUSR1
	// does. One that comes from another rank sets it.
	Requeue *atomic.Bool
	Args    []string // the command line, for the record
	About   About    // what is said of the runs, beside what was said before
	// From is the folder of a Priceable run of the same trajectory: what it learned
	// is taken over, and only times and bytes are made anew. "": the run is trained.
	From string
	// TrainAll keeps ExecuteAll from pricing runs.
	TrainAll bool
	// Watch, if set, hears how many updates have been made, of how many.
	Watch func(done, total int)
	// Lead, if set, hosts rank 0 beside the observer and lets the other ranks,
	// started by somebody else, come to it; nothing is launched.
	Lead *JoinOptions
	// Join gives the command that starts one rank of a grpc run as a process
	// of this machine; Itself is one.
	Join func(rank int, coordinator, config, token string) Command

	at    *place        // replaces this process's host and file system
	due   func() bool   // replaces the wall clock's word that a checkpoint is due
	hurry time.Duration // replaces HurryTime; 0: it does not
	asked *atomic.Bool  // set by a run that was asked to stop through its folder
}

func (o Options) recipe() string {
	if o.Recipe == "" {
		return "run"
	}
	return o.Recipe
}

// perm is who may read a new folder.
func (o Options) perm() fs.FileMode {
	if o.Shared {
		return shared
	}
	return private
}

// base is where the folder of a run lies, but for a number behind it.
func (o Options) base(run config.Run) string {
	label := run.Name
	if label == "" {
		label = "run"
	}
	return filepath.Join(outOr(o.Out), o.recipe(), fileName(label)+"-"+run.Config.Hash()[:6])
}

// finished is the result of the folder's run, with the target of c; nil if there is
// none, or if its record lacks what one of c would have.
func (f *folder) finished(c config.Config) *Result {
	var r Result
	if err := readJSON(f.file("result.json"), &r); err != nil {
		return nil
	}
	if old, err := readConfig(f.path); err != nil || !old.Tells(c) {
		return nil
	}
	var evals []record.Eval
	ms, _ := regular.ReadFile(f.file(metricsFile), regular.Any)
	for _, m := range ParseMetrics(ms) {
		if m.Eval != nil {
			evals = append(evals, *m.Eval)
		}
	}
	goal, err := c.Goal(r.Metrics)
	if err != nil {
		return nil
	}
	r.Reach(goal, evals)
	return &r
}

func outOr(out string) string {
	if out == "" {
		return "runs"
	}
	return out
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }

// fileName makes a label safe as a folder's name, and not too long.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("=.,-_+", r):
			return r
		case r == '(' || r == ')':
			return '_'
		}
		return '-'
	}, s)
	if len(s) > 100 {
		s = s[:100]
	}
	return s
}

// Downloads shows on d how downloads go on, and the other work of opening a data set.
func Downloads(d *progress.Display) func(data.Progress) {
	return func(p data.Progress) {
		switch name := path.Join(p.Set, p.File); {
		case p.Note != "":
			d.Logf("%s: %s", p.Set, p.Note)
		case p.Doing == "":
			d.Download(name, p.Done, p.Total)
		default:
			d.Count(p.Doing+" "+name, p.Unit, p.Done, p.Total)
		}
	}
}

func (f *folder) begin(c config.Config, args []string, prices *config.CodecPrices) error {
	if rates := prices.Record(); rates != nil {
		if err := writeFile(f.file(recordedRates), rates.Text()); err != nil {
			return err
		}
	}
	if err := writeFile(f.file("config.yaml"), c.YAML()); err != nil {
		return err
	}
	return writeJSON(f.file("env.json"), environment(args))
}

// finish writes the result and the final parameters.
func (f *folder) finish(r *Result, obs *train.Observer, job *train.Job) error {
	if r.Weightless() {
		if err := writeJSON(f.file("ranks.json"), obs.Reports); err != nil {
			return err
		}
		return writeJSON(f.file("result.json"), r)
	}
	s := checkpoint.State{Vectors: map[string][]float32{"param": obs.Params}, Ints: map[string]int64{"version": int64(r.Steps)}}
	b, err := s.Encode(nil, job.Model.Layout())
	if err != nil {
		return err
	}
	if err := writeFile(f.file("model.safetensors"), b); err != nil {
		return err
	}
	if err := writeJSON(f.file("ranks.json"), obs.Reports); err != nil {
		return err
	}
	return writeJSON(f.file("result.json"), r)
}

func summary(r *Result) string {
	clock := fmt.Sprintf("%s wall", progress.Seconds(r.WallSeconds))
	if r.VirtualSeconds > 0 {
		clock = fmt.Sprintf("%s virtual, %s", progress.Seconds(r.VirtualSeconds), clock)
	}
	if r.Weightless() {
		return fmt.Sprintf("%s: %.4g samples/s, %d steps, up %s, down %s, %s", r.Status, float64(r.Samples)/r.VirtualSeconds, r.Steps,
			progress.Bytes(r.BytesUp), progress.Bytes(r.BytesDown), clock)
	}
	ended := r.Status
	if r.Ended != "" {
		ended += " at the " + r.Ended
	}
	of := ""
	if r.AccuracyAt > 0 {
		of = fmt.Sprintf(" of update %d", r.AccuracyAt)
	}
	judged := ""
	for i, m := range sgd.WithFirst(r.Metrics, r.Metric) {
		x, ok := r.Values[m.Name]
		if n := len(r.Evals); i == 0 && n > 0 && r.Evals[n-1].Error > 0 && m == r.Metrics[0] { // half of a 95 % interval
			of += fmt.Sprintf(" ± %.2g over test samples", 1.96*r.Evals[n-1].Error)
		}
		switch {
		case !ok: // stopped before the first evaluation
		case i > 0:
			judged += fmt.Sprintf("%s %s, ", m.Head(), progress.Value(m, x))
		case r.Best[m.Name] == record.Best{}:
			judged = fmt.Sprintf("last %s %s%s, ", m.Head(), progress.Value(m, x), of)
		default:
			judged = fmt.Sprintf("last %s %s%s (best %s), ", m.Head(), progress.Value(m, x), of, progress.Value(m, r.Best[m.Name].Value))
		}
	}
	s := fmt.Sprintf("%s: %s%d steps, up %s, down %s, %s",
		ended, judged, r.Steps, progress.Bytes(r.BytesUp), progress.Bytes(r.BytesDown), clock)
	if r.StalenessMax > 0 {
		s += fmt.Sprintf(", staleness %.1f mean %d max", r.StalenessMean, r.StalenessMax)
	}
	if t := r.Strain; t != nil {
		s += fmt.Sprintf(", frames came %.2f ms late", 1e3*t.LateSeconds/float64(max(1, t.Frames)))
		if t.Overruns > 0 {
			s += fmt.Sprintf(", OVERRUN: %d of %d computations took longer than stated, by %s in all", t.Overruns, t.Works, progress.Seconds(t.OverSeconds))
		}
	}
	if r.PricedFrom != "" {
		s += ", trained in " + r.PricedFrom
	}
	if r.Degraded {
		s += ", DEGRADED: " + strings.Join(r.Lost, "; ")
	}
	return s
}
