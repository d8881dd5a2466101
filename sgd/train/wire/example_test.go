package wire_test

import (
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// A worker pushes its part of a gradient to one of two servers, through a codec.
func Example() {
	var l sgd.Layout
	l.Add("weight", sgd.Weight, 2, 3)
	l.Add("bias", sgd.Bias, 1, 2)
	shards := wire.Shards(l, wire.Cuts(l, ps.RoundRobin{}, 2))
	codec := compress.QSGD{Bits: 4, Bucket: 8, Norm: "max"}

	second := shards[1] // it holds the bias
	out, _ := wire.Content{}.NewPacker(second, codec, compress.Block{Rank: 0, World: 1})
	in, _ := wire.Content{}.NewPacker(second, codec, compress.Block{Rank: -1, World: 1})

	gradient := []float32{0, 0, 0, 0, 0, 0, 7, -7}
	frame, _ := out.Push(comm.Header{}, second.Whole, wire.Floats(gradient), compress.Step{})
	sum := make([]float32, second.Size())
	_ = in.Set(second.Whole, sum, false, 1, frame.Body, compress.From{})
	fmt.Println(second.Pieces[0].Block.Name, len(frame.Body), "bytes:", sum)
	// Output:
	// bias 5 bytes: [7 -7]
}
