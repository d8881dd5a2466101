package bench

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/grpcnet"
)

// StreamRow is how fast one process sends messages of one size to another.
type StreamRow struct {
	Bytes  int     `json:"bytes"` // of a message
	Name   string  `json:"name"`  // "tcp" is a bare connection, the yardstick
	GBs    Spread  `json:"gb_s"`
	Allocs float64 `json:"allocations"` // of the sender, a message
	Share  Spread  `json:"share_of_tcp"`
	Error  string  `json:"error,omitempty"`
}

// RoundTripRow is a message there and one back.
type RoundTripRow struct {
	Bytes  int    `json:"bytes"`
	Name   string `json:"name"`
	Micros Spread `json:"microseconds"`
	Error  string `json:"error,omitempty"`
}

var (
	streamSizes = []int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	tripSizes   = []int{64, 4 << 10}
)

// bareTCP is the yardstick's name.
const bareTCP = "tcp"

// streams measures what one link does.
func (o *WireOptions) streams(ctx context.Context, r *WireReport) error {
	var ts []*talker
	var own []string // commands, to the yardstick others than to ours
	for _, l := range o.Links {
		g, err := o.startOurs(ctx, rankOptions{World: 2, Links: l, Topology: o.Topology})
		if g != nil {
			defer g.end()
		}
		ts, own = append(ts, &talker{group: g, name: string(l), ours: true, err: err}), append(own, "")
	}
	g, err := o.startOurs(ctx, rankOptions{World: 2, Links: grpcnet.LinksGRPC, Topology: o.Topology})
	if g != nil {
		defer g.end()
	}
	ts, own = append(ts, &talker{group: g, name: bareTCP, err: err}), append(own, "tcp")
	compare := func(what string, size int) []turns {
		for i, t := range ts {
			t.command = fmt.Sprintf("%s%s %d", own[i], what, size)
		}
		o.Logf("%s of %s", what, sizeText(size))
		return o.compare(ctx, ts)
	}
	for _, size := range streamSizes {
		all := compare("stream", size)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i, t := range ts {
			row := StreamRow{Bytes: size, Name: t.name}
			if t.err != nil {
				row.Error = t.err.Error()
			} else {
				row.GBs, row.Allocs = all[i].rate(float64(size)/1e9), all[i].allocs
				row.Share = timesAsFast(all[i], all[len(all)-1])
			}
			r.Streams = append(r.Streams, row)
		}
	}
	for _, size := range tripSizes {
		all := compare("roundtrip", size)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i, t := range ts {
			row := RoundTripRow{Bytes: size, Name: t.name}
			if t.err != nil {
				row.Error = t.err.Error()
			} else {
				row.Micros = all[i].micros()
			}
			r.RoundTrips = append(r.RoundTrips, row)
		}
	}
	return ends(ts)
}
