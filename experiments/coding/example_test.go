package coding_test

import (
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// What a codec of a gigabyte a second takes for a megabyte of gradient, and what a
// device does that is ten times as fast as the core that was measured.
func Example() {
	table := &hardware.CodecTable{Name: "mine", Processor: "a core", FLOPS: 1e11, Memory: 2e10, Rates: []hardware.CodecRate{
		{Codec: "sign", Block: coding.Any, Elements: []int{1}, Encode: []float64{4}, Decode: []float64{2}},
	}}
	sign, err := compress.Parse("sign")
	if err != nil {
		panic(err)
	}
	use := timing.Coding{Codec: sign, Block: compress.Block{Rows: 500, Cols: 500}}
	for _, speed := range []coding.Speed{{FLOPS: 1e11}, {FLOPS: 1e12}} {
		book := coding.NewBook(speed, nil, table)
		fmt.Println(book.Price(use), book.Err())
	}
	// Output:
	// 1ms <nil>
	// 100µs <nil>
}
