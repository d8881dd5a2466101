package checkpoint_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// part is something with state.
type part struct {
	steps int
	x     []float32
}

func (p *part) keep(k *checkpoint.Keeper) {
	k.Int(checkpoint.Key("step", 2), &p.steps)
	k.Vector("own/2", p.x)
}

func ExampleKeeper() {
	st := checkpoint.New()
	was := part{7, []float32{1, 2}}
	was.keep(checkpoint.Saving(st))
	file, err := st.Encode(nil, sgd.Layout{})
	if err != nil {
		panic(err)
	}
	back, err := checkpoint.Decode(file, sgd.Layout{})
	if err != nil {
		panic(err)
	}
	is := part{x: make([]float32, 2)}
	k := checkpoint.Loading(back)
	is.keep(k)
	fmt.Println(is.steps, is.x, k.Err())
	// Output: 7 [1 2] <nil>
}
