package compress_test

import (
	"fmt"

	"github.com/gradlab/gradlab/compress"
)

// A codec by its spec, one instance a tensor: what it leaves out stays in its
// residual and comes later.
func Example() {
	family, err := compress.Parse("feedback(topk(keep=0.25))")
	if err != nil {
		panic(err)
	}
	block := compress.Block{Name: "w", Rows: 1, Cols: 8, World: 1, Seed: 1}
	enc, err := family.New(block)
	if err != nil {
		panic(err)
	}
	dec, err := family.New(block)
	if err != nil {
		panic(err)
	}
	g := []float32{3, -1, 0.5, 2, 0, 1, -4, 0.25}
	sum := make([]float32, 8)
	for step := range 3 {
		payload, err := enc.Append(nil, g, compress.Step{N: step})
		if err != nil {
			panic(err)
		}
		if err := dec.AddTo(sum, 1, payload, compress.From{Step: step}); err != nil {
			panic(err)
		}
		fmt.Println(len(payload), "bytes:", sum)
	}
	// Output:
	// 9 bytes: [3 0 0 0 0 0 -4 0]
	// 9 bytes: [3 0 0 4 0 0 -8 0]
	// 9 bytes: [9 0 0 4 0 0 -12 0]
}

// What a codec guarantees of a block, before it has encoded any.
func ExampleClaimsOf() {
	block := compress.Block{Rows: 1, Cols: 1 << 20, World: 1}
	for _, spec := range []string{"qsgd(bits=4)", "topk(keep=0.01)", "sign"} {
		c, _ := compress.ClaimsOf(compress.Families.MustParse(spec), block)
		fmt.Printf("%-16s unbiased %-5v contraction %-5v at most %.2f bits a value\n", spec, c.Unbiased, c.Delta > 0, 8*float64(c.Size)/(1<<20))
	}
	// Output:
	// qsgd(bits=4)     unbiased true  contraction false at most 4.06 bits a value
	// topk(keep=0.01)  unbiased false contraction true  at most 0.41 bits a value
	// sign             unbiased false contraction true  at most 1.00 bits a value
}
