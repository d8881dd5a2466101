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
	trained := map[string]*store.Run{}
	for _, r := range past {
		if r.State == store.Done && r.Result != nil && len(r.Foreign) == 0 && r.Config.Timeless() {
			trained[r.Config.Trajectory()] = r
		}
	}
	first := map[string]int{}
	for i := range jobs {
		j, c := &jobs[i], &costs[i]
		j.from, j.after = "", -1
		if c.Err != nil || !j.Config.Timeless() {
			continue
		}
		k := j.Config.Trajectory()
		if r := trained[k]; r != nil && experiments.Priceable(r.Folder) {
			j.from = r.Folder
		} else if lead, ok := first[k]; ok {
			j.after = lead
		} else {
			first[k] = i
			continue
		}
		c.Priced, c.Seconds = true, c.replay
		priced++
	}
	return priced
}

// source is the folder that a job is to be priced from, "" if it must be trained
// after all: the run that it shares its training with failed, or was made in
// several goes and has no record of sizes.
func (p Plan) source(i int, out []Outcome) string {
	j := p.Jobs[i]
	switch {
	case !p.Costs[i].Priced:
		return ""
	case j.from != "":
		return j.from
	}
	if o := out[j.after]; o.Err == nil && o.Result != nil && experiments.Priceable(o.Result.Folder) {
		return o.Result.Folder
	}
	return ""
}
