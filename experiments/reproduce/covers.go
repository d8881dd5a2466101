package reproduce

import "gonum.org/v1/gonum/stat/distuv"

// covers judges how many of n published points lie inside intervals that should have
// nine in ten. Fewer than so many are evidence against that: of 16, 12 or more do in
// 98 % of cases, and 13 or more in 93 %.
func (r *Report) covers(name string, inside, n int) {
	likely := distuv.Binomial{N: float64(n), P: 0.9}
	least := 0
	for likely.CDF(float64(least)) < 0.05 {
		least++
	}
	r.between(HeldOut, name, "%", 90, 100*float64(inside)/float64(n), 100*float64(least)/float64(n), 100)
}
