//go:build !mpi

package mpinet_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/mpinet"
)

// Each process that mpirun has started is one rank. A program that was built without
// the tag mpi says how to build it, as this one does.
func Example() {
	world, err := mpinet.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mpinet.End()
	ranks := make([][]int, world.Size)
	for r := range ranks {
		ranks[r] = []int{r}
	}
	net, err := mpinet.New(mpinet.Config{Ranks: ranks})
	if err != nil {
		fmt.Println(err)
		return
	}
	program := func(ctx context.Context, h comm.Host) error {
		return h.Send(ctx, (h.Rank()+1)%h.Size(), comm.NewFrame(comm.Header{Tag: 1}, comm.NewBuffer(8)))
	}
	fmt.Println(net.Run(context.Background(), []comm.Program{program}))
	// Output:
	// this program was built without MPI; build it with CGO_ENABLED=1 CC=mpicc go build -tags mpi (Debian: apt-get install libopenmpi-dev openmpi-bin)
}
