package advise

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
)

// priced are the keys of a cluster that predictions follow.
var priced = []string{
	"device.flops", "device.jitter", "device.law", "device.slow", "device.spread", "device.overhead", "device.step", "device.input", "device.apply", "device.codec",
	"network.bandwidth", "network.share", "network.latency", "network.message", "network.stream", "network.overlap", "network.reduce", "network.gather", "network.call", "network.per_host", "network.inside", "network.bridge", "network.rack", "network.oversubscription",
}

// Doubts are the reasons, a sentence each, for which predictions may be further
// from simulated steps than Band.
func (q *Question) Doubts() ([]string, error) {
	var out, unpriced []string
	def := config.Default()
	for _, k := range config.Keys() {
		cluster := strings.HasPrefix(k.Name, "device.") || strings.HasPrefix(k.Name, "network.")
		if v := q.Base.Get(k.Name); cluster && v != def.Get(k.Name) && !slices.Contains(priced, k.Name) {
			unpriced = append(unpriced, k.Name+"="+v)
		}
	}
	if unpriced != nil {
		out = append(out, "Not in the prediction: "+strings.Join(unpriced, ", ")+".")
	}
	p, err := newPricer(q)
	if err != nil {
		return nil, err
	}
	if v := p.pass.varies; v > Band { // some four steps are simulated
		out = append(out, fmt.Sprintf("Predicted steps are means over many: the slowest device's pass varies by %.0f %% of its mean from step to step, and so do simulated steps, of which there are few.", 100*v))
	}
	return out, nil
}
