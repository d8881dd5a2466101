package stats_test

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/experiments/stats"
)

// Two configurations over five seeds: the difference is taken seed by seed.
func Example() {
	raw := map[uint64]float64{1: 93.1, 2: 92.6, 3: 93.4, 4: 92.9, 5: 93.0}
	topk := map[uint64]float64{1: 92.8, 2: 92.4, 3: 93.0, 4: 92.8, 5: 92.5}
	var x []float64
	for _, v := range raw {
		x = append(x, v)
	}
	s := stats.Summarize(x)
	fmt.Printf("%.2f ± %.2f of %d\n", s.Mean, s.Half, s.N)
	d := stats.Paired(raw, topk)
	fmt.Printf("difference %.2f ± %.2f, p = %.3f\n", d.Mean, d.Half, d.P)
	fmt.Println("three comparisons, corrected:", stats.Holm([]float64{0.01, 0.04, 0.03}))
	// Output:
	// 93.00 ± 0.36 of 5
	// difference -0.30 ± 0.20, p = 0.013
	// three comparisons, corrected: [0.03 0.06 0.06]
}

// A run that never reaches the target counts as never, not as missing.
func ExampleReaching() {
	r := stats.Reaching([]float64{12, 15, math.Inf(1), 13, 14})
	fmt.Printf("median %.0f s, %d of %d got there\n", r.Median, r.Reached, r.N)
	// Output:
	// median 14 s, 4 of 5 got there
}

// How far it scales: Amdahl's serial share, and what queueing and chatter add.
func ExampleUSL() {
	law, err := stats.USL([]stats.Point{{N: 1, Throughput: 100}, {N: 2, Throughput: 189}, {N: 4, Throughput: 335}, {N: 8, Throughput: 518}, {N: 16, Throughput: 605}})
	if err != nil {
		panic(err)
	}
	workers, most := law.Limit()
	fmt.Printf("sigma %.3f, kappa %.4f: at most %.0f a second, with %.0f workers\n", law.Sigma, law.Kappa, most, workers)
	// Output:
	// sigma 0.047, kappa 0.0039: at most 606 a second, with 16 workers
}
