package pipeline_test

import (
	"fmt"
	"os"

	"github.com/gradlab/gradlab/comm/pipeline"
)

// Four stages, six micro-batches: what a device does, and how long it waits.
func Example() {
	p, err := pipeline.OneFOneB{}.Plan(4, 6)
	if err != nil {
		fmt.Println(err)
		return
	}
	cost, err := pipeline.Price(p, pipeline.Times{Forward: []float64{1}, Inputs: []float64{1}, Weights: []float64{1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := cost.Draw(os.Stdout, p, 2+3*27); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("each waits for %v of %v, and device 0 holds %d activations\n", cost.Wait[0], cost.Seconds, cost.Held[0])
	// Output:
	// 0 F0-F1-F2-F3-..................B0----F4-B1----F5-B2----...B3----...B4----...B5----
	// 1 ...F0-F1-F2-............B0----F3-B1----F4-B2----F5-B3----...B4----...B5----......
	// 2 ......F0-F1-......B0----F2-B1----F3-B2----F4-B3----F5-B4----...B5----............
	// 3 .........F0-B0----F1-B1----F2-B2----F3-B3----F4-B4----F5-B5----..................
	// each waits for 9 of 27, and device 0 holds 4 activations
}
