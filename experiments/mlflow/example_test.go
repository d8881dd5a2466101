package mlflow_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/mlflow"
	"github.com/gradlab/gradlab/experiments/store"
)

// A run that still goes on is left for later, without a word to the server.
func Example() {
	c := &mlflow.Client{URL: "http://localhost:5000"}
	outcome, err := c.Export(context.Background(), "quickstart", &store.Run{State: store.Running})
	fmt.Println(outcome, err)
	// Output: is not finished <nil>
}
