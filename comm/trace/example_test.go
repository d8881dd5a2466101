package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/comm/trace"
)

// A recorder is a probe of the virtual cluster; what it writes opens in
// ui.perfetto.dev.
func Example() {
	r := &trace.Recorder{Names: []string{"sender", "receiver"}}
	net := &sim.Net{Probe: r, Network: &sim.Fair{Bandwidth: 1e9, Latency: time.Millisecond}}
	send := func(ctx context.Context, h comm.Host) error {
		return h.Send(ctx, 1, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(1000)))
	}
	receive := func(ctx context.Context, h comm.Host) error {
		f, err := h.Recv(ctx, 0, comm.AnyTag)
		f.Release()
		return err
	}
	if err := net.Run(context.Background(), []comm.Program{send, receive}); err != nil {
		panic(err)
	}
	var b bytes.Buffer
	if err := r.Chrome(&b); err != nil {
		panic(err)
	}
	var out struct{ TraceEvents []struct{ Name, Ph string } }
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		panic(err)
	}
	for _, e := range out.TraceEvents {
		if e.Ph == "X" {
			fmt.Println(e.Name)
		}
	}
	// Output:
	// wait for rank 0
	// gradient
}
