package traintest_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/traintest"
)

// What a mode fails is told by the name of the check. This one fails nothing.
func ExampleFailures() {
	fmt.Println(len(traintest.Failures(gossip.DPSGD{})), "checks fail")
	// Output: 0 checks fail
}
