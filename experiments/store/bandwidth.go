package store

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// hardly is the speed-up below which several workers are said to hardly pay.
const hardly = 1.05

// far is how many times the bandwidth of a run nothing is said beyond: latencies, streams
// and software hold there.
const far = 100

// wouldPay words on which network some group would be at the target sooner than one worker
// alone, which is there after alone seconds: the network's times are taken to shrink with
// its bandwidth. "" where times on the wire are not known.
func wouldPay(groups []*Group, target record.Goal, alone float64) (string, error) {
	least, label := math.Inf(1), "" // seconds without any on the wire
	enough, with := math.Inf(1), "" // bandwidth, bytes a second
	for _, g := range groups {
		if g.Label == Alone || len(Comparable(g.Runs)) == 0 {
			continue
		}
		way, err := g.Reach(target)
		if err != nil {
			return "", err
		}
		wire, err := wireShare(g.Runs)
		if err != nil {
			return "", err
		}
		if math.IsInf(way.Seconds.Median, 1) || math.IsNaN(wire) {
			continue
		}
		on := wire * way.Seconds.Median
		rest := way.Seconds.Median - on
		if rest < least {
			least, label = rest, g.Label
		}
		if room := alone/hardly - rest; room > 0 {
			if b := g.Runs[0].Config.NetworkBandwidth * on / room; b < enough {
				enough, with = b, g.Label
			}
		}
	}
	switch {
	case label == "" || math.IsInf(alone, 1):
		return "", nil
	case with == "" || enough > far*groups[0].Runs[0].Config.NetworkBandwidth:
		return fmt.Sprintf(" Bandwidth alone changes little of that: without its time on the wire %s would take %s.", label, progress.Seconds(least)), nil
	}
	return fmt.Sprintf(" It would from about %.2g Gb/s on, with %s, if times on the wire shrink with the bandwidth.", 8*enough/1e9, with), nil
}

// wireShare is the part of all workers' steps that is on the wire; NaN where that was not
// measured.
func wireShare(runs []*Run) (float64, error) {
	var wire, whole float64
	for _, r := range runs {
		ranks, err := r.Ranks()
		if err != nil {
			return 0, err
		}
		for _, k := range ranks {
			if k.Role != "worker" || k.Time == nil {
				continue
			}
			x := k.Spent()
			wire += x.Wire
			whole += x.Compute + x.Encode + x.Decode + x.Wire + x.Wait + x.Rest
		}
	}
	if whole == 0 {
		return math.NaN(), nil
	}
	return wire / whole, nil
}
