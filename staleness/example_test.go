package staleness_test

import (
	"fmt"

	"github.com/gradlab/gradlab/staleness"
)

// A policy decides from counts alone. Worker 0 is two steps ahead of the slowest:
// under ssp(slack=1) its push counts, and it waits for the answer.
func Example() {
	spec, err := staleness.Policies.Parse("ssp(slack=1)")
	if err != nil {
		panic(err)
	}
	p, err := spec.New(3)
	if err != nil {
		panic(err)
	}
	v := staleness.View{Live: []bool{true, true, true}, Pushed: []int{3, 2, 1}, Held: make([]int, 3), Waiting: []bool{true, false, false}, Version: 6}
	fmt.Println("the push:", p.Admit(v, 0))
	fmt.Println("worker 0 may go on:", p.Release(v, 0))
	v.Pushed[2] = 2 // the slowest catches up
	fmt.Println("and now:", p.Release(v, 0))
	// Output:
	// the push: apply
	// worker 0 may go on: false
	// and now: true
}

// A corrector scales what comes late.
func ExampleCorrector() {
	late := staleness.Correctors.MustParse("alpha_tau")
	for _, delay := range []int{0, 1, 4} {
		fmt.Printf("%d updates late: %.2f of the rate\n", delay, late.Scale(staleness.Past{Delay: delay}))
	}
	// Output:
	// 0 updates late: 1.00 of the rate
	// 1 updates late: 1.00 of the rate
	// 4 updates late: 0.25 of the rate
}
