package emulate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/comm/local"
)

// A megabyte between goroutines takes as long as a NIC of 100 MB/s would.
func Example() {
	send := func(ctx context.Context, h comm.Host) error {
		return h.Send(ctx, 1, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(1e6)))
	}
	receive := func(ctx context.Context, h comm.Host) error {
		began := time.Now()
		f, err := h.Recv(ctx, 0, comm.AnyTag)
		if err != nil {
			return err
		}
		f.Release()
		fmt.Println("at least 10 ms:", time.Since(began) >= 9*time.Millisecond)
		return nil
	}
	net := &emulate.Net{Net: &local.Net{}, NIC: emulate.NIC{Bandwidth: 1e8, Latency: time.Millisecond}}
	if err := net.Run(context.Background(), []comm.Program{send, receive}); err != nil {
		panic(err)
	}
	// Output: at least 10 ms: true
}
