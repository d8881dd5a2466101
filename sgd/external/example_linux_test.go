package external_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/sgd/external"
)

// A program that ends before it has named its tensors: the error has what it printed.
func ExampleOpen() {
	_, err := external.Open(context.Background(), external.Options{
		Command: []string{"sh", "-c", "echo no such data set; exit 3"},
	})
	fmt.Println(err)
	// Output:
	// external: "sh -c echo no such data set; exit 3": it died or closed its socket (exit status 3); its last output:
	// no such data set
}
