package collective

import "fmt"

// Auto takes the topology that the cost model calls cheapest for the number of
// ranks and the length of the vector. It knows nothing else, so that all ranks
// of a run choose alike.
//
// A rank pays Alpha for every move it makes, Beta for every byte that it sends
// or receives, whichever is more, and Gamma for every byte that it adds. The
// defaults were measured between processes of one host over gRPC; what they
// decide changes little within a factor of two.
//
// Tuning: on a slow network raise Beta (8/bandwidth), on one far away Alpha.
//
// Rule: the least of the closed forms, over doubling, tree, halving and ring.
//
// Paper: none; the model is Hockney's (1994).
//
// Cost: that of the topology it takes.
type Auto struct {
	Alpha float64 `spec:"alpha_us,show" doc:"microseconds a move"`
	Beta  float64 `spec:"beta_ns" doc:"nanoseconds a byte sent"`
	Gamma float64 `spec:"gamma_ns" doc:"nanoseconds a byte added"`
}

var defaults = Topologies.Add("auto", "the cheapest of doubling, tree, halving and ring by the cost model", Auto{Alpha: 30, Beta: 0.5, Gamma: 0.1}).(Auto)

// Validate checks the options.
func (a Auto) Validate() error {
	if !(a.Alpha >= 0 && a.Beta >= 0 && a.Gamma >= 0) {
		return fmt.Errorf("a cost of %g, %g and %g: want none below 0", a.Alpha, a.Beta, a.Gamma)
	}
	return nil
}

// Plan implements Topology.
func (a Auto) Plan(at At) Plan { return a.Choose(at.Size, at.Bytes).Plan(at) }

// candidates of Auto; of equally cheap ones the first is taken.
var candidates = [...]Topology{Doubling{}, Tree{}, Halving{}, Ring{}}

// Choose gives the topology for a vector of so many bytes over size ranks.
func (a Auto) Choose(size, bytes int) Topology {
	best, least := candidates[0], 0.0
	for i, t := range candidates {
		cost := a.cost(t.Plan(At{Size: size, Bytes: bytes}), bytes)
		if i == 0 || cost < least {
			best, least = t, cost
		}
	}
	return best
}

// cost adds up the moves of rank 0, which is nowhere less busy than another.
func (a Auto) cost(p Plan, bytes int) float64 {
	sum := 0.0
	size := func(r Range) float64 {
		lo, hi := Bounds(r, p.Chunks, bytes)
		return float64(hi - lo)
	}
	for _, m := range p.Moves {
		sent, received := 0.0, 0.0
		if m.To >= 0 {
			sent = size(m.Send)
		}
		if m.From >= 0 {
			received = size(m.Recv)
		}
		sum += float64(1e3*a.Alpha) + float64(a.Beta*max(sent, received))
		if m.Add {
			sum += float64(a.Gamma * received)
		}
	}
	return sum
}
