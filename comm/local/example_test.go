package local_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
)

// Ranks are goroutines. A rank that fails is gone for the others, with its error
// as the cause, so that nobody waits for ever.
func Example() {
	fails := func(context.Context, comm.Host) error { return fmt.Errorf("no disk") }
	waits := func(ctx context.Context, h comm.Host) error {
		_, err := h.Recv(ctx, 0, comm.AnyTag)
		fmt.Println(err)
		return err
	}
	err := (&local.Net{}).Run(context.Background(), []comm.Program{fails, waits})
	fmt.Println("the run:", err)
	// Output:
	// rank 0 is gone: rank 0, main: no disk
	// the run: rank 0, main: no disk
}
