package sim_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// flow is bytes from one rank to another, to leave at a time.
type flow struct {
	from, to int
	bytes    int
	start    time.Duration
}

// fluid is the specification of Fair: all rates solved anew at every event, by
// the textbook, over every resource there is. It returns when each flow is
// through, without latency. Flows of one pair follow each other.
func fluid(n *sim.Fair, flows []flow) []float64 {
	host := func(r int) int {
		if r < len(n.Place) {
			return n.Place[r]
		}
		return 1000 + r
	}
	path := func(f flow) map[string]float64 {
		a, b := host(f.from), host(f.to)
		if a == b {
			p := map[string]float64{fmt.Sprint("out", f.from): n.Inside, fmt.Sprint("in", f.to): n.Inside}
			if n.Bridge > 0 {
				p[fmt.Sprint("bridge", a)] = n.Bridge
			}
			return p
		}
		p := map[string]float64{fmt.Sprint("tx", a): n.Bandwidth, fmt.Sprint("rx", b): n.Bandwidth}
		if n.Rack > 0 && a/n.Rack != b/n.Rack {
			up := float64(n.Rack) * n.Bandwidth / max(n.Oversubscription, 1)
			p[fmt.Sprint("up", a/n.Rack)], p[fmt.Sprint("down", b/n.Rack)] = up, up
		}
		if n.Stream > 0 {
			p[fmt.Sprint("stream", f.from, f.to)] = n.Stream
		}
		return p
	}
	left, done := make([]float64, len(flows)), make([]float64, len(flows))
	for i, f := range flows {
		left[i], done[i] = float64(f.bytes), -1
	}
	for now := 0.0; ; {
		// The first flow of each pair that has begun and is not through.
		rates, busy := map[int]float64{}, map[[2]int]bool{}
		next := math.Inf(1)
		for i, f := range flows {
			switch key := [2]int{f.from, f.to}; {
			case done[i] >= 0 || busy[key]:
			case f.start.Seconds() > now+1e-12:
				next = min(next, f.start.Seconds())
				busy[key] = true
			default:
				busy[key] = true
				rates[i] = 0
			}
		}
		if len(rates) == 0 && math.IsInf(next, 1) {
			return done
		}
		for free := len(rates); free > 0; {
			room, count := map[string]float64{}, map[string]float64{}
			for i, r := range rates {
				for k, c := range path(flows[i]) {
					if _, ok := room[k]; !ok {
						room[k] = c
					}
					room[k] -= r
					if r == 0 {
						count[k]++
					}
				}
			}
			least, which := math.Inf(1), ""
			for k, c := range count {
				if share := room[k] / c; share < least || share == least && k < which {
					least, which = share, k
				}
			}
			for i, r := range rates {
				if _, ok := path(flows[i])[which]; ok && r == 0 {
					rates[i] = least
					free--
				}
			}
		}
		for i, r := range rates {
			next = min(next, now+left[i]/r)
		}
		for i, r := range rates {
			if left[i] -= r * (next - now); left[i] < 1e-3 {
				done[i] = next
			}
		}
		now = next
	}
}

// sleep is work that takes d.
func sleep(d time.Duration) comm.Work {
	return comm.Work{Cost: []time.Duration{d}, Run: func(at func(int) error) error { return at(0) }}
}

func TestFairIsMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(2, 7).Draw(t, "ranks")
		n := &sim.Fair{Bandwidth: 1e9, Inside: 3e9}
		if rapid.Bool().Draw(t, "placed") {
			for range ranks {
				n.Place = append(n.Place, rapid.IntRange(0, 4).Draw(t, "host"))
			}
			if rapid.Bool().Draw(t, "racks") {
				n.Rack, n.Oversubscription = rapid.IntRange(1, 3).Draw(t, "rack"), rapid.Float64Range(1, 8).Draw(t, "oversubscription")
			}
		}
		if rapid.Bool().Draw(t, "bridges are limited") {
			n.Bridge = rapid.Float64Range(5e8, 1e10).Draw(t, "bridge")
		}
		if rapid.Bool().Draw(t, "streams are limited") {
			n.Stream = rapid.Float64Range(5e7, 2e9).Draw(t, "stream")
		}
		var flows []flow
		perPair := map[[2]int]time.Duration{}
		for range rapid.IntRange(1, 12).Draw(t, "flows") {
			f := flow{
				from: rapid.IntRange(0, ranks-1).Draw(t, "from"), to: rapid.IntRange(0, ranks-1).Draw(t, "to"),
				bytes: rapid.IntRange(1e6, 20e6).Draw(t, "bytes"),
				start: time.Duration(rapid.IntRange(0, 20).Draw(t, "start")) * time.Millisecond,
			}
			if f.from == f.to {
				f.to = (f.to + 1) % ranks
			}
			key := [2]int{f.from, f.to}
			f.start = max(f.start, perPair[key]) // a sender's frames leave in order
			perPair[key] = f.start
			flows = append(flows, f)
		}
		want := fluid(n, flows)
		got := make([]time.Duration, len(flows))
		receive := func(ctx context.Context, h comm.Host) error {
			for _, f := range flows {
				if f.to != h.Rank() {
					continue
				}
				frame, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
				if err != nil {
					return err
				}
				got[frame.Header.Seq] = h.Now()
				frame.Release()
			}
			return nil
		}
		programs := make([]comm.Program, ranks)
		for r := range programs {
			programs[r] = func(ctx context.Context, h comm.Host) error {
				for i, f := range flows {
					if f.from != h.Rank() {
						continue
					}
					h.Go(fmt.Sprint("flow ", i), func(ctx context.Context, h comm.Host) error {
						if err := h.Do(ctx, sleep(f.start)); err != nil {
							return err
						}
						frame := comm.NewFrame(comm.Header{Kind: comm.Gradient, Seq: uint64(i)}, comm.NewBuffer(0))
						frame.Billed = f.bytes
						return h.Send(ctx, f.to, frame)
					})
				}
				return receive(ctx, h)
			}
		}
		if err := (&sim.Net{Network: n}).Run(context.Background(), programs); err != nil {
			t.Fatal(err)
		}
		for i, f := range flows {
			if d := math.Abs(got[i].Seconds() - want[i]); d > 1e-7 {
				t.Fatalf("flow %d %+v arrives at %v, want %.9f s", i, f, got[i], want[i])
			}
		}
	})
}

// Hosts, racks and messages: closed forms.
func TestPlaces(t *testing.T) {
	// Ranks 0 … 3 on two hosts, each of which is a rack.
	place := []int{0, 0, 1, 1}
	sizes := map[int]int{0: 1e6, 1: 1e6, 2: 1e6}
	for name, c := range map[string]struct {
		net  sim.Fair
		want map[int]float64 // arrival at rank 3
	}{
		// 0 and 1 share host 0's NIC; 2 is 3's neighbour.
		"hosts": {sim.Fair{Bandwidth: 1e9, Latency: time.Millisecond, Place: place, Inside: 1e10, InsideLatency: time.Microsecond},
			map[int]float64{0: 0.003, 1: 0.003, 2: 0.000101}},
		"memory costs nothing": {sim.Fair{Bandwidth: 1e9, Place: place}, map[int]float64{0: 0.002, 1: 0.002, 2: 0}},
		// Host 1 of the first rack, host 2 of the second: links of 2 GB/s / 8.
		"racks": {sim.Fair{Bandwidth: 1e9, Place: []int{0, 1, 2, 3}, Rack: 2, Oversubscription: 8},
			map[int]float64{0: 0.008, 1: 0.008, 2: 1e6 / 0.75e9}},
		"messages": {sim.Fair{Bandwidth: 1e9, Message: time.Millisecond}, map[int]float64{0: 0.006, 1: 0.006, 2: 0.006}},
		// A call keeps a stream busy as long however slow the stream is.
		"messages of slow streams": {sim.Fair{Bandwidth: 1e9, Stream: 2.5e8, Message: time.Millisecond}, map[int]float64{0: 0.005, 1: 0.005, 2: 0.005}},
	} {
		at := map[int]time.Duration{}
		run(t, &sim.Net{Network: &c.net}, 4, incast(sizes, 3, at))
		for r, want := range c.want {
			near(t, fmt.Sprintf("%s: from %d", name, r), at[r], want)
		}
	}
}

// BenchmarkFair is a network alone: 128 workers that exchange 40 tensors each
// with 16 servers, and a ring of 1,024 ranks. An op is all of it.
func BenchmarkFair(b *testing.B) {
	frame := func(bytes int) comm.Frame {
		f := comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(0))
		f.Billed = bytes
		return f
	}
	const workers, servers, tensors = 128, 16, 40
	b.Run("servers", func(b *testing.B) {
		for range b.N {
			programs := make([]comm.Program, workers+servers)
			for r := range programs {
				programs[r] = func(ctx context.Context, h comm.Host) error {
					if r >= workers {
						for range workers * tensors / servers * 2 {
							f, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
							if err != nil {
								return err
							}
							f.Release()
						}
						return nil
					}
					if err := h.Do(ctx, sleep(time.Duration(r*997%1000)*time.Microsecond)); err != nil {
						return err
					}
					for i := range 2 * tensors {
						if err := h.Send(ctx, workers+i%servers, frame(1000*(1+i*i%97))); err != nil {
							return err
						}
					}
					return nil
				}
			}
			if err := (&sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 25 * time.Microsecond}}).Run(context.Background(), programs); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*workers*tensors*2)/b.Elapsed().Seconds(), "messages/s")
	})
	b.Run("ring", func(b *testing.B) {
		const ranks, rounds = 1024, 20
		for range b.N {
			programs := make([]comm.Program, ranks)
			for r := range programs {
				programs[r] = func(ctx context.Context, h comm.Host) error {
					for range rounds {
						if err := h.Send(ctx, (r+1)%ranks, frame(1e5)); err != nil {
							return err
						}
						f, err := h.Recv(ctx, (r+ranks-1)%ranks, comm.AnyTag)
						if err != nil {
							return err
						}
						f.Release()
					}
					return nil
				}
			}
			if err := (&sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 25 * time.Microsecond}}).Run(context.Background(), programs); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*ranks*rounds)/b.Elapsed().Seconds(), "messages/s")
	})
}
