package pipeline

// GPipe takes all micro-batches forward, and then all backward (Huang et al. 2019, arXiv
// 1811.06965). A device idles for (p−1)·(F+B+W) of a batch, of m+p−1 such times, and holds
// the activations of all m micro-batches.
type GPipe struct{}

var _ = Schedules.Add("gpipe", "all forward, then all backward", GPipe{})

// Plan implements Schedule.
func (GPipe) Plan(devices, micros int) (*Plan, error) {
	return plan(devices, micros, looped(max(devices, 0), 1), func(d int) (l line) {
		for i := range micros {
			l.add(d, Forward, i)
		}
		for i := range micros {
			l.add(d, Backward, i)
		}
		return l
	})
}
