package data_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
)

// A set serves batches by their place in the shuffled stream: rank 2 of four at
// step 10 asks for samples (10·4 + 2)·8 and the seven behind them.
func Example() {
	set, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	var b sgd.Batch
	if err := set.Train.Batch(sgd.Draw{First: (10*4 + 2) * 8, N: 8}, &b); err != nil {
		panic(err)
	}
	fmt.Println(set.Name, set.Train.Len(), "+", set.Test.Len(), "of", set.Train.Sample().Classes, "classes, each", set.Train.Sample().Shape)
	fmt.Println(b.N, "labels:", b.Y)
	// Output:
	// digits 1438 + 359 of 10 classes, each 1x8x8
	// 8 labels: [1 5 5 3 1 1 5 7]
}
