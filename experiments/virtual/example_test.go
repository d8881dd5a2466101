package virtual_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/experiments/virtual"
)

// What was recorded of a script, on two networks under ideal software.
func ExampleReplay() {
	var record strings.Builder
	for rank := range 2 {
		fmt.Fprintf(&record, `{"from":%d,"event":{"do":"hello","rank":%[1]d,"world":2}}`+"\n", rank)
		for step := range 3 {
			fmt.Fprintf(&record, `{"from":%d,"event":{"do":"all_reduce","id":%d,"bytes":1250000,"width":4,"spent":0.05}}`+"\n", rank, step+1)
			fmt.Fprintf(&record, `{"from":%d,"event":{"do":"wait","id":%d}}`+"\n", rank, step+1)
			fmt.Fprintf(&record, `{"from":%d,"event":{"do":"step"}}`+"\n", rank)
		}
		fmt.Fprintf(&record, `{"from":%d,"event":{"do":"end"}}`+"\n", rank)
	}
	for _, network := range []string{"network.bandwidth=100Mbps", "network.bandwidth=10Gbps"} {
		r, err := virtual.Replay(context.Background(), strings.NewReader(record.String()), []string{network, "transport=ideal"}, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %.0f ms a step\n", network, 1e3*r.Step)
	}
	// Output:
	// network.bandwidth=100Mbps: 150 ms a step
	// network.bandwidth=10Gbps: 51 ms a step
}
