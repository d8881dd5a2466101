package ask

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// on is the default configuration with keys.
func on(t *testing.T, keys map[string]string) *config.Resolved {
	t.Helper()
	c := config.Default()
	for key, text := range keys {
		if err := c.Set(key, text); err != nil {
			t.Fatal(err)
		}
	}
	r, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The report prices what the closed forms price, tries it out on the virtual
// cluster, and finds crossovers where the model says they are.
func TestAnswerTopology(t *testing.T) {
	t.Parallel()
	q := TopologyQuestion{Topology: collective.Ring{}, Ranks: 16, Bytes: 1 << 20, On: on(t, map[string]string{"network.bandwidth": "1GB/s", "network.latency": "10us"})}
	r, err := AnswerTopology(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Moves) != 30 || r.Chunks != 16 || !strings.Contains(r.Proof, "exactly once") {
		t.Errorf("%d moves of %d chunks, %s", len(r.Moves), r.Chunks, r.Proof)
	}
	const alpha, beta, P = 10e-6, 1e-9, 16.0
	for _, c := range r.Costs {
		if c.Topology != "ring" {
			continue
		}
		want := 2 * (P - 1) * (alpha + float64(q.Bytes)/P*beta)
		if math.Abs(c.Price.Seconds/want-1) > 1e-6 || math.Abs(c.Virtual/want-1) > 1e-3 {
			t.Errorf("ring: %v s by the model and %v s on the virtual cluster, want %v", c.Price.Seconds, c.Virtual, want)
		}
	}
	// Against recursive doubling: 2(P−1)(α + nβ/P) = log2 P·(α + nβ).
	want := alpha * (2*(P-1) - 4) / (beta * (4 - 2*(P-1)/P))
	for _, c := range r.Against {
		if c.Other != "doubling" {
			continue
		}
		if c.Faster || len(c.At) != 1 || math.Abs(c.At[0]/want-1) > 0.02 {
			t.Errorf("%+v, want one crossover at %v", c, want)
		}
	}
	var b bytes.Buffer
	if err := r.Write(&b, "markdown", 3); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"  … 27 more", "| → ring ", "  doubling       no faster up to 12"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in\n%s", line, b.String())
		}
	}
	for _, bad := range []TopologyQuestion{{Ranks: 0}, {Ranks: 100_000}, {Ranks: 2, Bytes: -1}, {Ranks: 2, Rank: 2}} {
		if _, err := AnswerTopology(context.Background(), bad); err == nil {
			t.Errorf("%+v was answered", bad)
		}
	}
}

// Topologies that are too long to be priced are named, with the reason, and a
// question that is taken back ends.
func TestAnswerTopologyOfManyRanks(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("prices plans of millions of moves")
	}
	q := TopologyQuestion{Topology: collective.Ring{}, Ranks: 1500, Bytes: 4, On: on(t, nil)}
	r, err := AnswerTopology(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b, "markdown", 3); err != nil || !strings.Contains(b.String(), "left out:\n  direct ") || !strings.Contains(b.String(), "  ring           its plan has about 4497000 moves") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if n := len(collective.Topologies.Names()) - 1; len(r.Costs)+len(r.LeftOut) != n { // without auto
		t.Errorf("%d priced and %d left out of %d", len(r.Costs), len(r.LeftOut), n)
	}
	if why := unpriced(collective.Halving{}.Plan(collective.At{Size: mostAsked}), mostAsked); !strings.Contains(why, "65536 chunks") {
		t.Errorf("halving: %q", why)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := AnswerTopology(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("a question that was taken back: %v", err)
	}
}

// What a message costs and what a rack lets through count in the time of the model
// as they do on the virtual cluster, whose order rows are in.
func TestTopologyUnderMessagesAndRacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys map[string]string
		ring float64 // seconds
	}{
		"messages":            {map[string]string{"constants.message": "10ms"}, 14 * (50e-6 + 1e6*8e-9 + 4*10e-3)}, // 1 MB is four pieces
		"racks":               {map[string]string{"network.rack": "2", "network.oversubscription": "8"}, 14e6 * 32e-9},
		"messages of streams": {map[string]string{"constants.message": "10ms", "constants.stream": "25MB/s"}, 14 * (50e-6 + 1e6*40e-9 + 4*10e-3)},
		"streams":             {map[string]string{"constants.stream": "25MB/s"}, 14 * (50e-6 + 1e6*40e-9)},
		"hosts":               {map[string]string{"network.per_host": "8"}, 14 * 1e6 * 1e-10},
		"bridges":             {map[string]string{"network.per_host": "8", "constants.bridge": "16GB/s"}, 14 * 8e6 / 16e9},
	} {
		q := TopologyQuestion{Topology: collective.Ring{}, Ranks: 8, Bytes: 8e6, On: on(t, c.keys)}
		r, err := AnswerTopology(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range r.Costs {
			if row.Topology == "ring" && (math.Abs(row.Price.Seconds/c.ring-1) > 0.01 || math.Abs(row.Virtual/c.ring-1) > 0.01) {
				t.Errorf("%s: %v s by the model and %v s on the virtual cluster, want %v", name, row.Price.Seconds, row.Virtual, c.ring)
			}
			if i > 0 && r.Costs[i-1].Virtual > row.Virtual {
				t.Errorf("%s: %s, %v s, comes before %s, %v s", name, r.Costs[i-1].Topology, r.Costs[i-1].Virtual, row.Topology, row.Virtual)
			}
		}
	}
}
