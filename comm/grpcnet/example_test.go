package grpcnet_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
)

// Two processes of one run, here in one: the first coordinates, the second joins
// it by address and has to know the run's secret.
func Example() {
	token := "0f1e2d3c4b5a69788796a5b4c3d2e1f0" // a random one, of at least 128 bits
	id := []grpcnet.Field{{Name: "model", Value: "mlp"}}
	lead, err := grpcnet.New(grpcnet.Config{Ranks: []int{0}, World: 2, Identity: id, Token: token})
	if err != nil {
		panic(err)
	}
	defer lead.Close()
	other, err := grpcnet.New(grpcnet.Config{Ranks: []int{1}, World: 2, Identity: id, Token: token, Coordinator: lead.Addr()})
	if err != nil {
		panic(err)
	}
	defer other.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		err := other.Run(context.Background(), []comm.Program{func(ctx context.Context, h comm.Host) error {
			return h.Send(ctx, 0, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(1000)))
		}})
		if err != nil {
			panic(err)
		}
	})
	err = lead.Run(context.Background(), []comm.Program{func(ctx context.Context, h comm.Host) error {
		f, err := h.Recv(ctx, 1, comm.AnyTag)
		if err != nil {
			return err
		}
		defer f.Release()
		fmt.Println(len(f.Body), "bytes from rank", f.Header.From)
		return nil
	}})
	if err != nil {
		panic(err)
	}
	wg.Wait()
	// Output:
	// 1000 bytes from rank 1
}
