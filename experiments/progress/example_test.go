package progress_test

import (
	"fmt"

	"github.com/gradlab/gradlab/experiments/progress"
)

// How amounts are worded everywhere.
func Example() {
	fmt.Println(progress.Bytes(68_200_000), progress.Seconds(0.0904), progress.Seconds(412), progress.Rate(1234, "samples"))
	// Output:
	// 68.2 MB 90ms 6m52s 1234 samples/s
}
