package lab_test

import (
	"fmt"

	"github.com/gradlab/gradlab/notebooks/lab"
)

// The error of a codec on vectors of a law, for a table in a notebook.
func Example() {
	e := lab.Must(lab.ErrorOf("sign", "gaussian"))
	fmt.Printf("sign: %.1f bits a value, error %.2f of the vector's square\n", e.Bits, e.VNMSE)
	fmt.Println("keeps", lab.Arg("topk(keep=0.01)", "keep"))
	// Output:
	// sign: 1.0 bits a value, error 0.36 of the vector's square
	// keeps 0.01
}
