package store

import (
	"fmt"
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Where several workers are later than one alone, the bandwidth from which they would not be
// follows from their time on the wire; where that is not most of it, no bandwidth does.
func TestBandwidthThatWouldPay(t *testing.T) {
	t.Parallel()
	groups, goal := Groups(filtered(t, find(t), "codec=raw", "seed=1")), record.Goal{Metric: sgd.Accuracy, Value: 0.9}
	way, err := groups[0].Reach(goal)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := wireShare(groups[0].Runs)
	if err != nil || !(wire > 0.1 && wire < 0.99) {
		t.Fatalf("%g of a step is on the wire, %v", wire, err)
	}
	at, rest := way.Seconds.Median, (1-wire)*way.Seconds.Median
	would := fmt.Sprintf(" It would from about 3 Gb/s on, with %s, if times on the wire shrink with the bandwidth.", groups[0].Label)
	for alone, want := range map[float64]string{
		hardly * (rest + wire*at/3):   would,
		rest * 0.5:                    "never",
		hardly * (rest + wire*at/200): "never",
		math.Inf(1):                   "",
	} {
		if want == "never" {
			want = fmt.Sprintf(" Bandwidth alone changes little of that: without its time on the wire %s would take %.0fms.", groups[0].Label, 1e3*rest)
		}
		if got, err := wouldPay(groups, goal, alone); got != want || err != nil {
			t.Errorf("one worker alone in %.4f s, one of several in %.4f s, %.4f s without the wire: %q, %v; want %q", alone, at, rest, got, err, want)
		}
	}
}
