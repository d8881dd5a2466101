package soak_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/soak"
)

// A seed is a small run of some mode, and what befalls it.
func Example() {
	s := soak.Soak{Modes: []string{"reduce"}}
	t, err := s.Try(context.Background(), 2)
	if err != nil {
		panic(err)
	}
	fmt.Println(t.Config.Mode, len(t.Wrong))
	// Output: reduce 0
}
