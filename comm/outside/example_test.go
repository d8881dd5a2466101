package outside_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/outside"
	"github.com/gradlab/gradlab/comm/sim"
)

// Two ranks compute for a second each, and sum a gradient of 1 MB meanwhile and
// after, over NICs of 1 MB/s.
func Example() {
	record := `{"from":0,"event":{"do":"hello","world":2}}
{"from":0,"event":{"do":"all_reduce","id":1,"bytes":1000000,"width":4,"spent":0.5}}
{"from":0,"event":{"do":"wait","id":1,"spent":0.5}}
{"from":0,"event":{"do":"end"}}
{"from":1,"event":{"do":"all_reduce","id":1,"bytes":1000000,"width":4,"spent":0.5}}
{"from":1,"event":{"do":"wait","id":1,"spent":0.5}}
{"from":1,"event":{"do":"end"}}`
	ranks, err := outside.Recorded(strings.NewReader(record))
	if err != nil {
		fmt.Println(err)
		return
	}
	c := outside.Cluster{
		Net:      &sim.Net{Network: &sim.Fair{Bandwidth: 1e6, Latency: time.Millisecond}},
		Topology: collective.Ring{}, Speed: 1,
	}
	out, err := c.Play(context.Background(), ranks)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f s, of which %.2f are waiting\n", out[0].Seconds, out[0].Waiting)
	// Output: 1.50 s, of which 0.50 are waiting
}
