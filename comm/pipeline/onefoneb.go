package pipeline

// OneFOneB takes a micro-batch backward as soon as it can, one forward and one backward in
// turn, and ends with the batch: PipeDream-Flush (Narayanan et al. 2021, arXiv 2006.09503).
// It idles as long as GPipe, and stage s of p holds the activations of min(m, p−s)
// micro-batches.
type OneFOneB struct{}

var _ = Schedules.Add("1f1b", "one forward, one backward; a flush at the end of the batch", OneFOneB{})

// Plan implements Schedule.
func (OneFOneB) Plan(devices, micros int) (*Plan, error) {
	return plan(devices, micros, looped(max(devices, 0), 1), func(d int) (l line) {
		ahead := min(micros, devices-1-d)
		for i := range micros + ahead {
			if i < micros {
				l.add(d, Forward, i)
			}
			if i >= ahead {
				l.add(d, Backward, i-ahead)
			}
		}
		return l
	})
}
