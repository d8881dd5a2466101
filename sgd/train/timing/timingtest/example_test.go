package timingtest_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/timing/timingtest"
)

// A law of mean 2 would change what device.flops means.
func ExampleFailures() {
	twice := law(func(k timing.Key) float64 { return 2 * k.Float64(0) * 2 })
	for check := range timingtest.Failures(twice) {
		fmt.Println("fails:", check)
	}
	// Output: fails: mean
}
