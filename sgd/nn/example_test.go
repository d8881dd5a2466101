package nn_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// A model of one's own is a stack of layers; Grad fills a flat gradient.
func Example() {
	model, err := nn.New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 8, W: 8}, Classes: 10}, 0,
		nn.Conv{Out: 4, Kernel: 3, Pad: 1}, nn.ReLU{}, nn.MaxPool{Kernel: 2}, nn.Dense{Out: 10})
	if err != nil {
		panic(err)
	}
	l := model.Layout()
	for _, s := range l.Spans {
		fmt.Println(s.Name, s.Rows, "x", s.Cols)
	}
	params, grad := make([]float32, l.Size()), make([]float32, l.Size())
	model.Init(params, 1)
	b := sgd.Batch{X: make([]float32, 2*64), Y: []int32{3, 7}, N: 2} // two black pictures
	for range 200 {
		if _, err := model.Grad(context.Background(), sgd.Pass{Params: params, Grad: grad, Scratch: model.NewScratch()}, b); err != nil {
			panic(err)
		}
		for i := range params {
			params[i] -= 0.5 * grad[i]
		}
	}
	loss, err := model.Grad(context.Background(), sgd.Pass{Params: params, Grad: grad, Scratch: model.NewScratch()}, b)
	if err != nil {
		panic(err)
	}
	fmt.Printf("loss %.1f, that of guessing one of two is 0.7\n", loss)
	// Output:
	// conv1.weight 4 x 9
	// conv1.bias 1 x 4
	// dense1.weight 10 x 64
	// dense1.bias 1 x 10
	// loss 0.7, that of guessing one of two is 0.7
}

// Models by their specs, as on the command line.
func ExampleSpec() {
	spec, err := nn.Models.Parse("mlp(hidden=[300,100])")
	if err != nil {
		panic(err)
	}
	model, err := spec.New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 28, W: 28}, Classes: 10})
	if err != nil {
		panic(err)
	}
	fmt.Println(nn.Models.Spec(spec), model.Layout().Trainable())
	// Output:
	// mlp(hidden=[300,100]) 266610
}
