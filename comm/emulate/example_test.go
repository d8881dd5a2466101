package emulate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/comm/local"
)

// A goroutine sends another 100 kB, and it takes what they take on a NIC of
// 10 MB/s behind 2 ms.
func Example() {
	net := &emulate.Net{Net: &local.Net{}, NIC: emulate.NIC{Bandwidth: 10e6, Latency: 2 * time.Millisecond}}
	err := net.Run(context.Background(), []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			return h.Send(ctx, 1, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(100_000)))
		},
		func(ctx context.Context, h comm.Host) error {
			f, err := h.Recv(ctx, 0, comm.AnyTag)
			if err != nil {
				return err
			}
			defer f.Release()
			fmt.Println(len(f.Body), "bytes; in less than 12 ms:", h.Now() < 12*time.Millisecond)
			return nil
		},
	})
	fmt.Println(err)
	// Output:
	// 100000 bytes; in less than 12 ms: false
	// <nil>
}
