package datatest_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/data/datatest"
)

// What a set fails is reported by the name of the check. This one fails nothing.
func ExampleFailures() {
	fmt.Println(len(datatest.Failures(data.Sets.MustParse("digits"), data.Options{})), "checks fail")
	// Output: 0 checks fail
}
