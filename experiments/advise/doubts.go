package advise

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
)

// priced are the keys of a cluster that predictions follow.
var priced = []string{
	"device.flops", "device.law", "device.slow", "device.codec",
	"network.bandwidth", "network.latency", "network.per_host", "network.inside", "network.rack", "network.oversubscription",
	"constants.share", "constants.overlap", "constants.reduce", "constants.gather", "constants.call", "constants.message", "constants.stream", "constants.bridge",
	"constants.overhead", "constants.step", "constants.input", "constants.apply",
}

// Doubts are the reasons, a sentence each, for which predictions may be further
// from simulated steps than Band.
func (q *Question) Doubts() ([]string, error) {
	var out, unpriced []string
	def := config.Default()
	for _, k := range config.Settings() {
		cluster := strings.HasPrefix(k.Name, "device.") || strings.HasPrefix(k.Name, "network.") || strings.HasPrefix(k.Name, "constants.")
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
