package sweep_test

import (
	"fmt"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/sweep"
)

// The jobs of a sweep: dimensions multiply, those of Zip advance together, and
// each job is known by the hash of its configuration.
func Example() {
	recipe, err := config.LoadRecipe("quickstart")
	if err != nil {
		panic(err)
	}
	jobs, err := sweep.Space{Recipe: recipe, Args: []string{"codec=raw,topk(keep=0.01)", "workers=double(2,8)", "batch=64,32,16"}, Zip: []string{"workers,batch"}, Exclude: []string{"workers=8 codec~topk"}}.Jobs()
	if err != nil {
		panic(err)
	}
	for _, j := range jobs {
		fmt.Println(j.Name)
	}
	fmt.Println(len(sweep.Shard(jobs, 1, 2)), "of them on the first of two machines")
	// Output:
	// workers=2,batch=64,codec=raw
	// workers=2,batch=64,codec=topk(keep=0.01)
	// workers=4,batch=32,codec=raw
	// workers=4,batch=32,codec=topk(keep=0.01)
	// workers=8,batch=16,codec=raw
	// 3 of them on the first of two machines
}

func ExampleValues() {
	for _, text := range []string{"raw,topk(keep=0.01)", "range(0,1,0.25)", "double(1,16)", "log(1e-3,1,4)"} {
		v, err := sweep.Values(text)
		if err != nil {
			panic(err)
		}
		fmt.Println(text, "is", v)
	}
	// Output:
	// raw,topk(keep=0.01) is [raw topk(keep=0.01)]
	// range(0,1,0.25) is [0 0.25 0.5 0.75 1]
	// double(1,16) is [1 2 4 8 16]
	// log(1e-3,1,4) is [0.001 0.01 0.1 1]
}
