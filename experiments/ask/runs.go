package ask

import (
	"errors"
	"fmt"
	"strings"

	"github.com/montanaflynn/stats"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/profile"
)

// clocked are the keys of a run on which the time of its updates depends, beside those of its
// devices and network, which nobody said: they are what it was made on.
var clocked = []string{"workers", "batch", "accumulate", "codec", "down_codec", "mode", "policy", "topology", "graph", "placement", "servers", "overlap"}

// measuredRuns takes the runs in a folder, or below it, for measurements: the median time
// of an update between two reports. Evaluations and checkpoints lie in few of them. Of a
// network that no profile is called after (a program's, say) the command line says which
// it is.
func measuredRuns(folder string) (out []Measurement, err error) {
	runs, err := store.Find(folder)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if r.Config.OnNet().Virtual {
			continue
		}
		s, err := updateTook(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Folder, err)
		}
		m := Measurement{Where: r.Folder, Seconds: s}
		for _, k := range clocked {
			m.Keys = append(m.Keys, k+"="+r.Config.Get(k))
		}
		if t := timedAs(r.Config); t != "" {
			m.Keys = append(m.Keys, "timing="+t)
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no runs on a real clock (net=local, grpc or mpi)", folder)
	}
	return out, nil
}

// updateTook is the median time of a run's updates, by its reports.
func updateTook(r *store.Run) (float64, error) {
	curve, err := r.Curve()
	if err != nil {
		return 0, err
	}
	var each []float64
	for i := 1; i < len(curve.Progress); i++ {
		a, b := curve.Progress[i-1], curve.Progress[i]
		if b.Step > a.Step && b.Seconds > a.Seconds {
			each = append(each, (b.Seconds-a.Seconds)/float64(b.Step-a.Step))
		}
	}
	if len(each) == 0 {
		return 0, errors.New("it has told of fewer than two updates, and takes no time to be fitted to")
	}
	return stats.Median(each)
}

// timedAs is the profile of a run's network; empty: none is called after it.
func timedAs(c config.Config) string {
	name, _, _ := strings.Cut(c.Model, "(")
	for _, p := range []string{c.Timing, name} {
		if _, err := profile.Profiles.Parse(p); err == nil {
			return p
		}
	}
	return ""
}
