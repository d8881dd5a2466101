package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm/grpcnet"
)

// StreamRow is how fast one process sends messages of one size to another.
type StreamRow struct {
	Bytes  int     `json:"bytes"` // of a message
	Name   string  `json:"name"`  // "bare tcp" and "bare tls" are the yardsticks
	GBs    Spread  `json:"gb_s"`
	CPU    float64 `json:"cpu_s_gb"`    // processor time of both, in seconds a GB; 0: not known
	Allocs float64 `json:"allocations"` // of the sender, a message
	Share  Spread  `json:"share"`       // of the yardstick: under TLS that is bare TLS
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

// The yardsticks: a bare connection between two processes, and one of crypto/tls.
const (
	bareTCP = "bare tcp"
	bareTLS = "bare tls"
)

// streams measures what one link does.
func (o *WireOptions) streams(ctx context.Context, r *WireReport) error {
	var ts []*talker
	var own []string // commands, to the yardsticks others than to ours
	add := func(name string, l grpcnet.Links, command string) {
		g, err := o.startOurs(ctx, rankOptions{World: 2, Links: l, Topology: o.Topology})
		ts, own = append(ts, &talker{group: g, name: name, ours: true, err: err}), append(own, command)
	}
	defer func() {
		for _, t := range ts {
			if t.group != nil {
				t.end()
			}
		}
	}()
	for _, l := range o.Links {
		add(string(l), l, "")
	}
	if slices.Contains(o.Links, LinksTLS) {
		add(bareTLS, LinksTLS, "tcp")
	}
	add(bareTCP, grpcnet.LinksGRPC, "tcp")
	yardstick := func(name string) int {
		want := bareTCP
		if name == string(LinksTLS) || name == bareTLS {
			want = bareTLS
		}
		return slices.IndexFunc(ts, func(t *talker) bool { return t.name == want })
	}
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
				row.GBs, row.CPU, row.Allocs = all[i].rate(float64(size)/1e9), all[i].cpu/float64(size)*1e9, all[i].allocs
				row.Share = timesAsFast(all[i], all[yardstick(t.name)])
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
