package reproduce_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/reproduce"
)

// A study computes what was published, and says point by point what came of it.
func Example() {
	r, err := reproduce.Run(context.Background(), "grace-bytes", &reproduce.Lab{Quick: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Study+":", len(r.Points), "points,", r.Failed(), "failed")
	// Output:
	// grace-bytes: 45 points, 0 failed
}
