package bits_test

import (
	"fmt"

	"github.com/gradlab/gradlab/compress/bits"
)

// Fields of any width one behind the other, and back.
func Example() {
	var w bits.Writer
	for _, v := range []uint64{5, 1, 7, 2} {
		w.Put(v, 3)
	}
	p := w.Flush()
	r := bits.NewReader(p)
	fmt.Print(len(p), " bytes:")
	for range 4 {
		v, _ := r.Get(3)
		fmt.Print(" ", v)
	}
	fmt.Println()
	// Output:
	// 2 bytes: 5 1 7 2
}

// Which entries of a sparse gradient are sent: gaps between them as Rice codes.
func ExampleRiceParam() {
	index := []uint32{3, 130, 131, 700, 912}
	b := uint(bits.RiceParam(len(index), 1000))
	var w bits.Writer
	w.RiceGaps(index, b)
	p := w.Flush()
	back := make([]uint32, len(index))
	r := bits.NewReader(p)
	ok := r.RiceGaps(back, b, 0, 1000)
	fmt.Println(len(p), "bytes", back, ok)
	// Output:
	// 6 bytes [3 130 131 700 912] true
}
