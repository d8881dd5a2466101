package timing_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/train/timing"
)

// A device of 1 GFLOP/s takes 2 ms for two million operations, and the last worker of
// this cluster ten times as long.
func ExampleTiming_Cost() {
	slow, err := timing.ParseSlow("1x10")
	if err != nil {
		panic(err)
	}
	t := timing.Timing{FLOPS: 1e9, Slow: slow}
	fmt.Println(t.Cost(2e6, 1, 0, 0), t.Cost(2e6*t.Slow.Times(0), 1, 3, 0))
	// Output: 2ms 20ms
}
