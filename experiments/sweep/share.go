package sweep

import (
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/store"
)

// Share finds jobs that learn the same on other networks and devices
// (config.Config.Trajectory). The first of them is trained, unless a run in
// the store was; the others are priced from it and marked so in their costs. It
// returns how many are.
func Share(jobs []Job, costs []Cost, past []*store.Run) (priced int) {
	wanted := map[string]bool{}
	for _, j := range jobs {
		wanted[j.Config.Trajectory()] = true
	}
	trained, first := experiments.Trained{}, map[string]bool{}
	for _, r := range past {
		if r.State == store.Done && r.Result != nil && len(r.Foreign) == 0 && wanted[r.Config.Trajectory()] {
			trained.Add(r.Config, r.Folder)
		}
	}
	for i := range jobs {
		j, c := &jobs[i], &costs[i]
		if c.Err != nil || !j.Config.Timeless() {
			continue
		}
		k := j.Config.Trajectory()
		if j.From = trained.From(j.Config); j.From == "" && !first[k] {
			first[k] = true
			continue
		}
		c.Priced, c.Seconds = true, c.replay
		priced++
	}
	return priced
}
