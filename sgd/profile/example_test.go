package profile_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/profile"
)

// What a step of a published network computes and sends.
func Example() {
	for _, name := range []string{"resnet50", "inception3", "vgg16"} {
		p := profile.Profiles.MustParse(name).Profile()
		fmt.Printf("%-10s %3d tensors, %5.1f million parameters, %5.1f GFLOP a sample forward\n",
			p.Name, len(p.Layout.Spans), float64(p.Parameters())/1e6, 2*p.ForwardMACs()/1e9)
	}
	// Output:
	// resnet50   161 tensors,  25.6 million parameters,   7.7 GFLOP a sample forward
	// inception3 190 tensors,  23.8 million parameters,  11.4 GFLOP a sample forward
	// vgg16       32 tensors, 138.4 million parameters,  30.9 GFLOP a sample forward
}
