package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/figure"
)

// PSvsRing is the communication cost of a parameter server and of a ring
// all-reduce over the number of processes.
//
// Source: COMS E6998, lecture 5 (2019).
type PSvsRing struct{}

var _ = Studies.Add("ps-vs-ring", "bytes and time of a parameter server and of a ring all-reduce", PSvsRing{})

// Group implements Study.
func (PSvsRing) Group() Group { return Scaling }

// Mechanisms implements Study.
func (PSvsRing) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "sums on the way", Doc: "everybody is sent every gradient", Off: swap("mode", `^reduce$`, "gather")},
		{Name: "latency", Doc: "messages arrive at once", Off: swap("network.latency", `^.+$`, "0s")},
	}
}

// Run implements Study.
func (s PSvsRing) Run(ctx context.Context, lab *Lab) (*Report, error) {
	const (
		bandwidth = 1.25e9 // bytes a second
		latency   = 20e-6
		steps     = 4
	)
	r := &Report{
		Title:  "communication cost of one step, P processes, N parameters",
		Source: "COMS E6998, lecture 5 (2019): 2N(P−1) at the server's process, 2N(P−1)/P at each process of a ring",
		Stated: []string{
			"model logistic on synthetic data: N = 1,000,010; raw codec, 4 bytes a parameter; server mode has one server and P − 1 workers",
			fmt.Sprintf("virtual network: %g GB/s each way, %g µs; computing costs nothing (device.flops=1e18)", bandwidth/1e9, latency*1e6),
			"times are between the ends of steps: at the server's NIC pushes, then answers; around the ring 2(P−1) rounds of chunks that are cut into pieces, so that latencies may pass while others are under way: from 2·4N(P−1)/(P·B) to that and 2(P−1) latencies",
		},
	}
	sizes := []int{2, 3, 4, 8, 16, 32}
	if lab.Quick {
		sizes = []int{2, 4, 8}
	}
	const parameters = 100000*10 + 10
	table := figure.Table{Title: "one step", Header: []string{"P", "server, bytes", "ring, bytes a process", "server, ms", "ring, ms"}}
	for _, p := range sizes {
		common := []string{"model=logistic", "data=synthetic(dim=100000,n=64,test=10)", "codec=raw", "batch=1", "optimizer=sgd",
			"schedule=constant(lr=0.1)", "net=sim", "device.flops=1e18", "device.law=constant", "network.bandwidth=1.25GB/s", "network.latency=20us"}
		measure := func(name string, n int, keys ...string) (bytes, seconds float64, err error) {
			var at [2]float64
			for i, s := range []int{steps, 2 * steps} {
				res, err := lab.run(ctx, fmt.Sprintf("%s,P=%d,steps=%d", name, p, s), append(append([]string{
					fmt.Sprintf("workers=%d", n), fmt.Sprintf("steps=%d", s)}, keys...), common...)...)
				if err != nil {
					return 0, 0, err
				}
				at[i] = res.VirtualSeconds
				bytes = float64(res.BytesUp+res.BytesDown) / float64(s)
			}
			return bytes, (at[1] - at[0]) / steps, nil
		}
		server, ts, err := measure("server", p-1, "mode=server", "policy=bsp", "servers=1")
		if err != nil {
			return nil, err
		}
		ring, tr, err := measure("ring", p, "mode=reduce", "topology=ring")
		if err != nil {
			return nil, err
		}
		ring /= float64(2 * p) // what one sends another receives
		n := 4.0 * parameters
		P := float64(p)
		r.exactly(Claim, fmt.Sprintf("server, P = %d: 2·4N(P−1)", p), "bytes", 2*n*(P-1), server)
		r.exactly(Claim, fmt.Sprintf("ring, P = %d: 2·4N(P−1)/P", p), "bytes", 2*n*(P-1)/P, ring)
		r.within(Claim, fmt.Sprintf("server, P = %d: time", p), "ms", 1e3*(2*n*(P-1)/bandwidth+2*latency), 1e3*ts, 0.01)
		carried, waited := 1e3*2*n*(P-1)/P/bandwidth, 1e3*2*(P-1)*latency
		r.between(Claim, fmt.Sprintf("ring, P = %d: time", p), "ms", carried+waited, 1e3*tr, carried, 1.01*(carried+waited))
		table.Rows = append(table.Rows, []string{fmt.Sprint(p), fmt.Sprintf("%.0f", server), fmt.Sprintf("%.0f", ring),
			fmt.Sprintf("%.3f", 1e3*ts), fmt.Sprintf("%.3f", 1e3*tr)})
	}
	r.Tables = append(r.Tables, table)
	return r, s.latency(ctx, r, lab)
}

// latency is a step with few bytes, which waits for messages alone.
func (PSvsRing) latency(ctx context.Context, r *Report, lab *Lab) error {
	const steps, latency = 4, 20e-6
	for _, p := range []int{2, 8} {
		bytes := 2 * 4 * 110 * float64(p-1) // at the server, and P times what a process of the ring has
		for _, way := range []struct {
			name  string
			waits float64 // latencies
			bytes float64
			keys  []string
		}{
			{"server: there and back", 2, bytes, []string{fmt.Sprintf("workers=%d", p-1), "mode=server", "policy=bsp", "servers=1"}},
			{"ring: 2(P−1) rounds", 2 * float64(p-1), bytes / float64(p), []string{fmt.Sprintf("workers=%d", p), "mode=reduce", "topology=ring"}},
		} {
			var at [2]float64
			for i, n := range []int{steps, 2 * steps} {
				res, err := lab.run(ctx, fmt.Sprintf("few bytes,%s,P=%d,steps=%d", way.name, p, n), append([]string{
					"model=logistic", "data=synthetic(dim=10,n=64,test=10)", "codec=raw", "batch=1", "optimizer=sgd", "schedule=constant(lr=0.1)", "net=sim",
					"device.flops=1e18", "device.law=constant", "network.bandwidth=1.25GB/s", "network.latency=20us", fmt.Sprintf("steps=%d", n)}, way.keys...)...)
				if err != nil {
					return err
				}
				at[i] = res.VirtualSeconds
			}
			r.within(Claim, fmt.Sprintf("110 parameters, P = %d, %s of %g µs: time", p, way.name, 1e6*latency), "µs", 1e6*(way.waits*latency+way.bytes/1.25e9), 1e6*(at[1]-at[0])/steps, 0.02)
		}
	}
	return nil
}
