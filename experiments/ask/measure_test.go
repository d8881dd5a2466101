package ask

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// weightless is a configuration without weights with these keys.
func weightless(t testing.TB, keys map[string]string) config.Config {
	c := config.Default()
	for k, v := range map[string]string{"weightless": "true", "timing": "inception3", "batch": "64", "steps": "3", "epochs": "0"} {
		if err := c.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range keys {
		if err := c.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// A step of Inception-v3 with TensorFlow's parameter servers, a frame a tensor:
// 128 workers, 116 servers beside them. The time is that of one step.
func BenchmarkTFParameterServer(b *testing.B) {
	c := weightless(b, map[string]string{"mode": "server(barrier=true)", "placement": "greedy", "servers": "116", "constants.colocate": "true",
		"overlap": "buckets(bytes=1)", "workers": "128", "network.bandwidth": "2.4GB/s", "device.flops": "4.74e12", "device.law": "lognormal(sigma=0.02)"})
	c.Steps = b.N
	b.ResetTimer()
	if _, err := Measure(context.Background(), c, Watch{}); err != nil {
		b.Fatal(err)
	}
}

// A run without weights takes the virtual time and counts the bytes of one with
// them, in every mode that has both, however codecs are billed.
func TestWeightlessIsTheRun(t *testing.T) {
	patience.Virtual(t)
	for name, keys := range map[string]map[string]string{
		"server":          {"mode": "server", "servers": "2"},
		"server, parts":   {"mode": "server", "servers": "2", "overlap": "buckets(bytes=1)", "codec": "qsgd(bits=4)", "down_codec": "bf16"},
		"server, barrier": {"mode": "server(barrier=true)", "servers": "3", "overlap": "buckets", "placement": "round_robin"},
		"asp":             {"mode": "server", "policy": "asp", "device.law": "lognormal(sigma=0.5)"},
		"tree":            {"mode": "rudra(tree=2)", "codec": "qsgd(bits=4)"},
		"tree, threads":   {"mode": "rudra(tree=2,threads=true)", "policy": "asp", "device.law": "lognormal(sigma=0.5)"},
		"ring":            {"mode": "reduce"},
		"ring, overlap":   {"mode": "reduce", "overlap": "buckets(bytes=100000)"},
		"ring, fused":     {"mode": "reduce", "overlap": "fusion(cycle=1ms,bytes=1000000)"},
		"ring, cut":       {"mode": "reduce", "overlap": "priority(bytes=100000,partition=30000)"},
		"ring, priority":  {"mode": "reduce", "overlap": "priority(bytes=100000)"},
		"tree of bf16":    {"mode": "reduce", "topology": "tree", "codec": "bf16"},
		"random k":        {"mode": "reduce", "codec": "feedback(randomk(keep=0.1))"},
		"gathered signs":  {"mode": "reduce", "codec": "feedback(sign)"},
		"gather":          {"mode": "gather", "codec": "fp16"},
		"powersgd":        {"mode": "reduce", "codec": "feedback(powersgd(rank=2))"},
		"powersgd, cut":   {"mode": "reduce", "overlap": "buckets(bytes=100000,partition=1000000)", "codec": "feedback(powersgd(rank=2))"},
		"powersgd, split": {"mode": "server", "servers": "3", "placement": "balanced", "codec": "feedback(powersgd(rank=2))"},
		"differences":     {"mode": "server", "servers": "2", "codec": "fp16", "down_codec": "qsgd(bits=4)", "policy": "asp"},
		"gathered raw":    {"mode": "gather"},
		"local steps":     {"mode": "localsgd(h=2)"},
		"local, signs":    {"mode": "localsgd(h=3,start=2)", "codec": "feedback(sign)", "outer": "nesterov(beta=0.9)", "device.law": "lognormal(sigma=0.5)"},
		"neighbours":      {"mode": "dpsgd", "codec": "bf16"},
		"push-sum":        {"mode": "sgp", "graph": "one_peer", "device.law": "lognormal(sigma=0.5)"},
		"push-sum, late":  {"mode": "sgp(late=2)", "graph": "one_peer", "device.law": "lognormal(sigma=0.5)"},
		"pairs":           {"mode": "adpsgd", "device.law": "lognormal(sigma=0.5)"},
		"free push-sum":   {"mode": "agp", "graph": "one_peer", "device.law": "lognormal(sigma=0.5)"},
		"choco":           {"mode": "choco", "codec": "sign"},
		"elastic":         {"mode": "easgd(tau=2)", "servers": "2"},
		"elastic, free":   {"mode": "easgd(tau=1)", "policy": "asp", "device.law": "lognormal(sigma=0.5)"},
		"elastic, signs":  {"mode": "easgd(tau=2)", "codec": "sign", "servers": "2"},
		"downpour":        {"mode": "downpour(n_fetch=2,n_push=2)", "policy": "asp", "servers": "2", "device.law": "lognormal(sigma=0.5)"},
		"whole numbers":   {"mode": "reduce", "codec": "intsum(bits=8)"},
	} {
		for _, billed := range []map[string]string{{"device.codec": "1GB/s", "constants.apply": "5GB/s"}, {"device.codec": "measured"}} {
			t.Run(name+", codecs "+billed["device.codec"], func(t *testing.T) {
				if !patience.Long {
					t.Skip("trains")
				}
				t.Parallel()
				empty := weightless(t, map[string]string{"timing": "mnistcnn", "batch": "2", "workers": "3"})
				all := maps.Clone(keys)
				maps.Copy(all, billed)
				for k, v := range all {
					if err := empty.Set(k, v); err != nil {
						t.Fatal(err)
					}
				}
				m, err := Measure(context.Background(), empty, Watch{})
				if err != nil {
					t.Fatal(err)
				}
				full := empty
				full.Weightless, full.Model, full.Data, full.Schedule = false, "mnistcnn(dropout=0)", "synthetic(dim=784,side=28,n=64,test=10)", "constant(lr=0.001)"
				f, err := Measure(context.Background(), full, Watch{})
				if err != nil {
					t.Fatal(err)
				}
				if f.BytesUp != m.BytesUp || f.BytesDown != m.BytesDown {
					t.Errorf("bytes %d up and %d down, without weights %d and %d", f.BytesUp, f.BytesDown, m.BytesUp, m.BytesDown)
				}
				for i, end := range m.Ends {
					if math.Abs(end-f.Ends[i]) > 1e-9*end {
						t.Errorf("update %d at %v, without weights at %v", i+1, f.Ends[i], end)
					}
				}
			})
		}
	}
}

// What software takes of an exchange is billed once a round where there are rounds.
func TestSoftwareOfARound(t *testing.T) {
	t.Parallel()
	took := func(keys ...[2]string) float64 {
		c := weightless(t, map[string]string{"timing": "mnistcnn", "batch": "2", "workers": "4", "steps": "8", "device.codec": "free"})
		for _, kv := range keys {
			if err := c.Set(kv[0], kv[1]); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Measure(t.Context(), c, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Ends[len(m.Ends)-1]
	}
	step := [2]string{"constants.step", "1s"}
	for mode, rounds := range map[string]float64{"reduce": 8, "localsgd(h=4)": 2, "localsgd(h=3)": 3, "easgd(tau=4)": 8} {
		m := [2]string{"mode", mode}
		more := took(m, step) - took(m)
		if mode == "easgd(tau=4)" {
			m = [2]string{"steps", "2"} // an update is that of the centre
			more = took([2]string{"mode", mode}, m, step) - took([2]string{"mode", mode}, m)
			rounds = 2
		}
		if want := 3 * rounds; math.Abs(more-want) > 1e-6 { // 1 s, and 1 s for every doubling of the workers
			t.Errorf("%s: eight steps take %g s longer, want %g", mode, more, want)
		}
	}
}

// Long runs tell of every few updates; their rate is the same.
func TestRateOfLongRuns(t *testing.T) {
	t.Parallel()
	short, long := Measured{}, Measured{}
	for i := 1; i <= 1200; i++ {
		at := float64(i) * 0.5
		short.Ends, short.Updates = append(short.Ends, at), append(short.Updates, i)
		if i%3 == 0 {
			long.Ends, long.Updates = append(long.Ends, at), append(long.Updates, i)
		}
	}
	for _, m := range []Measured{short, long} {
		if r := m.Rate(10, 32); math.Abs(r-64) > 1e-9 {
			t.Errorf("%v samples a second, want 64, of %d reports", r, len(m.Ends))
		}
		if m.Rate(0, 32) != 0 || m.Rate(1200, 32) != 0 {
			t.Error("a rate of nothing")
		}
	}
}

// A measurement that is asked to stop does so at once, and gives nothing.
func TestMeasureStops(t *testing.T) {
	t.Parallel()
	c := weightless(t, map[string]string{"timing": "mnistcnn", "batch": "2", "mode": "reduce", "workers": "3", "steps": "1000000"})
	polls := 0
	m, err := Measure(context.Background(), c, Watch{Stopping: func() bool { polls++; return polls > 5 }})
	if m != nil || !errors.Is(err, experiments.ErrStopped) {
		t.Errorf("%v, %v", m, err)
	}
}

// Who watches hears of every update of a short run, and of how many there will be.
func TestMeasureIsWatched(t *testing.T) {
	t.Parallel()
	c := weightless(t, map[string]string{"timing": "mnistcnn", "batch": "2", "mode": "reduce", "workers": "3", "steps": "7"})
	var heard []int
	m, err := Measure(context.Background(), c, Watch{Steps: func(done, total int) {
		if heard = append(heard, done); total != 7 {
			t.Errorf("of %d updates", total)
		}
	}})
	if err != nil || !slices.Equal(heard, m.Updates) || len(heard) == 0 || heard[len(heard)-1] != 7 {
		t.Errorf("heard of %v: %v", heard, err)
	}
}

// With priority an update ends while the next pass is under way. Whether passes or
// exchanges take longer, few steps show the same rate as many.
func TestRateWithPriority(t *testing.T) {
	t.Parallel()
	for _, bandwidth := range []string{"1Gbps", "100Gbps"} {
		var rates []float64
		for _, steps := range []string{"8", "40"} {
			c := weightless(t, map[string]string{"timing": "resnet50", "batch": "16", "mode": "reduce", "workers": "4", "overlap": "priority(bytes=8000000)",
				"network.bandwidth": bandwidth, "device.flops": "5e12", "steps": steps})
			m, err := Measure(context.Background(), c, Watch{})
			if err != nil {
				t.Fatal(err)
			}
			rates = append(rates, m.Rate(3, 64))
		}
		if math.Abs(rates[0]/rates[1]-1) > 1e-3 {
			t.Errorf("%s: %v images/s", bandwidth, rates)
		}
	}
}
