package sgd

import (
	"slices"

	"github.com/gradlab/gradlab/internal/portable"
)

// ShowsMomentum reports whether a gradient is in updates of o after its own, as Momentous
// says: o takes some steps on l, whose tensors are cut to a few values, two with a
// gradient (some rules only look at the first) and the others with zeros. Parameters are zero, so that what decays them says
// nothing. sgdtest holds the claim to it, and an engine asks it where a momentum that is
// not claimed would make a run diverge. It is false of an o that cannot be made there.
func ShowsMomentum(o Optimizer, l Layout) bool {
	var small Layout
	for _, s := range l.Spans {
		small.Add(s.Name, s.Role, min(s.Rows, 4), min(s.Cols, 4))
	}
	t, err := o.New(small)
	if err != nil {
		return false
	}
	params, u := make([]float32, small.Size()), make([]float32, small.Size())
	for n := range 5 {
		for i := range u {
			if u[i] = 0; n < 2 {
				u[i] = float32(portable.SinPi(0.3 + float64(0.95*float64(i))))
			}
		}
		t.Apply(u, params, Step{N: n, LR: 0.1})
		if n > 1 && slices.ContainsFunc(u, func(v float32) bool { return v != 0 }) {
			return true
		}
	}
	return false
}
