package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Failure is a run that failed, and why.
type Failure struct {
	Run config.Run
	Err error
}

// Cure names, for runs whose gradients became NaN or Inf, keys with which others of the
// same table learned: those of the run that differs in the fewest, and of these the best. It returns "" if no run failed so. A run that fails so fails again.
func Cure(failed []Failure, made []*Result) string {
	var out []string
	for _, f := range failed {
		if !strings.Contains(f.Err.Error(), compute.ErrNotFinite.Error()) { // of a process it is text
			continue
		}
		say := "run again it does the same: try a lower rate, optimizer=chain(clip,…), or another corrector or codec"
		if keys, r := nearest(f.Run.Config, made); r != nil {
			m := r.Goal().Metric
			say = fmt.Sprintf("in the same table %s learned (%s %s)", keys, m.Head(), progress.Value(m, r.Values[m.Name]))
		}
		out = append(out, fmt.Sprintf("%s: its gradient became NaN or Inf; %s", cmp.Or(f.Run.Name, "the run"), say))
	}
	return strings.Join(out, "\n")
}

// nearest returns the run that learned and differs from c in the fewest keys that decide
// what is learned, and these keys with its values.
func nearest(c config.Config, made []*Result) (keys string, of *Result) {
	own, fewest := c.Map(), 0
	for _, r := range made {
		if !r.learned() {
			continue
		}
		m := r.Goal().Metric
		var other []string
		for _, k := range config.Keys() {
			if v := fmt.Sprint(r.Config[k.Name]); k.Effect() == config.Trajectory && v != fmt.Sprint(own[k.Name]) {
				other = append(other, k.Name+"="+v)
			}
		}
		if of == nil || len(other) < fewest || len(other) == fewest && m.Better(r.Values[m.Name], of.Values[m.Name]) {
			slices.Sort(other)
			keys, of, fewest = strings.Join(other, " "), r, len(other)
		}
	}
	return keys, of
}

// learned reports whether all metrics are finite, and the accuracy, if it is measured, above
// chance.
func (r *Result) learned() bool {
	for _, x := range r.Values {
		if record.Diverged(x) {
			return false
		}
	}
	right, ok := r.Values[sgd.Accuracy.Name]
	return len(r.Values) > 0 && (!ok || right > r.Chance)
}
