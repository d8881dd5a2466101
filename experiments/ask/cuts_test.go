package ask

import (
	"context"
	"math"
	"testing"
)

// PowerSGD on ResNet-18 with CIFAR's stem sends what is published: the whole is
// 243/r times as large as its matrices at rank r (Vogels et al. 2019, appendix:
// convolutions as out×(in·k·k), vectors as they are), and an epoch, of 24 batches of
// 16 workers with 128 samples each, is 1023 MB raw and 4, 8 and 14 MB at rank 1, 2
// and 4 (table 3, in units of 2²⁰). Computed by hand: 4·(36,325·r + 9,610) bytes a step.
func TestPowerSGDSendsWhatIsPublished(t *testing.T) {
	t.Parallel()
	const raw = 4 * 11173962
	for codec, want := range map[string]struct {
		bytes int
		epoch float64 // published, in MB
	}{
		"raw":                        {raw, 1023},
		"feedback(powersgd(rank=1))": {4 * (36325*1 + 9610), 4},
		"feedback(powersgd(rank=2))": {4 * (36325*2 + 9610), 8},
		"feedback(powersgd(rank=4))": {4 * (36325*4 + 9610), 14},
	} {
		for _, mode := range []string{"server", "reduce"} {
			c := weightless(t, map[string]string{"timing": "resnet18_cifar", "mode": mode, "batch": "128", "workers": "2", "steps": "3", "codec": codec, "device.codec": "free"})
			m, err := Measure(context.Background(), c, Watch{})
			if err != nil {
				t.Fatal(err)
			}
			if int(m.BytesUp) != want.bytes*2*3 {
				t.Errorf("%s, mode %s: %d bytes in 3 steps of 2 workers, want %d a step", codec, mode, m.BytesUp, want.bytes)
			}
		}
		if mb := 24 * float64(want.bytes) / (1 << 20); math.Round(mb) != want.epoch {
			t.Errorf("%s: %.2f MB an epoch, published %.0f", codec, mb, want.epoch)
		}
	}
	if math.Round(raw/float64(4*(36325+9610))) != 243 || math.Round(raw/float64(4*(2*36325+9610))) != 136 {
		t.Error("not 243 and 136 times less")
	}
}

// Where tensors are cut, a codec of matrices still compresses them. Each piece of
// rows has factors of its own, so k pieces of a rows×cols matrix take
// 4r·(rows + k·cols) bytes where the whole takes 4r·(rows + cols).
func TestCutMatricesAreCompressed(t *testing.T) {
	t.Parallel()
	up := func(codec string, keys map[string]string) float64 {
		t.Helper()
		c := weightless(t, map[string]string{"timing": "resnet50", "batch": "32", "workers": "2", "steps": "2", "codec": codec, "device.codec": "free"})
		for k, v := range keys {
			if err := c.Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Measure(context.Background(), c, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		return float64(m.BytesUp) / 4
	}
	const codec = "powersgd(rank=2)"
	server := map[string]string{"mode": "server", "servers": "2", "placement": "balanced"}
	whole := up(codec, map[string]string{"mode": "server"})
	for name, c := range map[string]struct {
		keys map[string]string
		most float64 // of whole: more pieces, more factors
	}{
		"balanced, 2 servers":  {server, 1.05},
		"partition of 4 MB":    {map[string]string{"mode": "reduce", "overlap": "buckets(partition=4000000)"}, 1.4},
		"partition of 1 MB":    {map[string]string{"mode": "reduce", "overlap": "buckets(partition=1000000)"}, 3},
		"with error feedback":  {map[string]string{"mode": "server", "servers": "2", "placement": "balanced", "codec": "feedback(powersgd(rank=2))"}, 1.05},
		"buckets, never a cut": {map[string]string{"mode": "reduce", "overlap": "buckets(bytes=1000000)"}, 1.000001},
	} {
		got := up(codec, c.keys)
		t.Logf("%s: %.3f MB a gradient, whole %.3f", name, got/1e6, whole/1e6)
		if got < 0.999*whole || got > c.most*whole {
			t.Errorf("%s: %.0f bytes a gradient, %.0f where nothing is cut", name, got, whole)
		}
	}
	// Codecs that do not use the shape are cut where they always were.
	for _, other := range []string{"raw", "qsgd(bits=4)"} {
		if cut, one := up(other, server), up(other, map[string]string{"mode": "server"}); cut < one || cut > 1.001*one {
			t.Errorf("%s: %.0f bytes on two servers, %.0f on one", other, cut, one)
		}
	}
}
