package hook_test

import (
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/hook"
)

// Two ranks exchange the largest entry of a vector. What lies between Put and Take is the
// caller's collective.
func Example() {
	grads := [2][]float32{{0, 3, 1, -1}, {-8, 1, 0, 2}}
	var buckets [2]*hook.Bucket
	for rank := range buckets {
		s, err := hook.Open("topk(keep=0.25)", rank, 2, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		w, _ := s.Add("w", "weight", 1, 4)
		if buckets[rank], err = s.Begin(compress.Step{N: 0}, []int{w}, [][]float32{grads[rank]}); err != nil {
			fmt.Println(err)
			return
		}
	}
	asks, _ := buckets[0].Asks()
	fmt.Println(asks.Gather, "bytes are gathered from each rank")
	var parts [2][]byte
	for rank, b := range buckets {
		parts[rank], _ = b.PutGather(nil)
	}
	for rank, b := range buckets {
		_ = b.TakeParts(compress.OpGather, parts[:])
		_ = b.Next()
		_ = b.Output([][]float32{grads[rank]}, 0.5)
		fmt.Println(grads[rank])
	}
	// Output:
	// 6 bytes are gathered from each rank
	// [-4 1.5 0 0]
	// [-4 1.5 0 0]
}
