package collective_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
)

// floats are four bytes each on the wire.
type floats struct{}

func (floats) Width() int { return 4 }
func (floats) Put(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}
func (floats) Add(x []float32, src []byte) {
	for i := range x {
		x[i] += math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
func (floats) Set(x []float32, src []byte) { clear(x); floats{}.Add(x, src) }

// Four ranks add up their vectors around a ring.
func ExampleAllReduce() {
	program := func(ctx context.Context, h comm.Host) error {
		x := []float32{1, float32(h.Rank()), 10}
		g := collective.Group{Ranks: []int{0, 1, 2, 3}, Me: h.Rank()}
		if _, err := collective.AllReduce(ctx, h, g, collective.Ring{}, comm.Header{Kind: comm.Gradient}, x, floats{}); err != nil {
			return err
		}
		if h.Rank() == 2 {
			fmt.Println(x)
		}
		return nil
	}
	if err := (&local.Net{}).Run(context.Background(), []comm.Program{program, program, program, program}); err != nil {
		panic(err)
	}
	// Output:
	// [4 6 40]
}

// Which plan is cheapest for 64 ranks depends on the length of the vector:
// 30 µs a frame, 10 Gb/s.
func ExampleCost() {
	for _, name := range []string{"ring", "doubling", "halving"} {
		t := collective.Topologies.MustParse(name)
		if err := collective.Verify(t, collective.At{Size: 64, Bytes: 4096}); err != nil {
			panic(err)
		}
		for _, bytes := range []int{4 << 10, 64 << 20} {
			p := collective.Cost(t, collective.At{Size: 64, Bytes: bytes}, 4, collective.Links{Alpha: 30e-6, Beta: 8e-10})
			fmt.Printf("%-8s %8d bytes: %3d steps, %.2f ms\n", name, bytes, p.Steps, 1e3*p.Seconds)
		}
	}
	// Output:
	// ring         4096 bytes: 126 steps, 3.79 ms
	// ring     67108864 bytes: 126 steps, 109.48 ms
	// doubling     4096 bytes:   6 steps, 0.20 ms
	// doubling 67108864 bytes:   6 steps, 322.30 ms
	// halving      4096 bytes:  12 steps, 0.37 ms
	// halving  67108864 bytes:  12 steps, 106.06 ms
}
