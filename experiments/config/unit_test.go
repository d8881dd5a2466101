package config

import (
	"testing"

	"pgregory.net/rapid"
)

func TestShow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, text, want string }{
		{"network.bandwidth", "1Gbps", "1Gbps"},
		{"network.bandwidth", "1.25e8", "1Gbps"},
		{"network.bandwidth", "125MB/s", "1Gbps"},
		{"network.bandwidth", "10 Gb/s", "10Gbps"},
		{"network.bandwidth", "2.5Gbps", "2.5Gbps"},
		{"network.bandwidth", "10B/s", "10B/s"},
		{"constants.stream", "0", "0"},
		{"network.inside", "1e10", "80Gbps"},
		{"constants.apply", "800MB/s", "800MB/s"},
		{"device.flops", "1e11", "100GFLOPS"},
		{"device.flops", "15T", "15TFLOPS"},
		{"network.latency", "50us", "50µs"},
		{"workers", "8", "8"},
		{"network.bandwidth", "123456789", "987.654312Mbps"},
		{"constants.apply", "0", "0"},
		{"device.codec", "measured", "measured"},
		{"target", "0.95", "0.95"},
		{"codec", "topk(keep=0.01)", "topk(keep=0.01)"},
	} {
		conf := Default()
		if err := conf.Set(c.key, c.text); err != nil {
			t.Fatal(err)
		}
		if got := conf.Show(c.key); got != c.want {
			t.Errorf("%s=%s is shown as %s, want %s", c.key, c.text, got, c.want)
		}
	}
}

// What is shown is read as the same value, whatever it is.
func TestShownValuesAreReadAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		x := rapid.OneOf(rapid.Float64Range(1, 1e18), rapid.Map(rapid.Int64Range(1, 1<<40), func(i int64) float64 { return float64(i) / 8 })).Draw(t, "x")
		c.NetworkBandwidth, c.DeviceFLOPS, c.Constants.Apply = max(1, x), max(1, x), Bandwidth(x)
		for _, k := range everyKey() {
			d := Default()
			if err := d.Set(k.Name, c.Show(k.Name)); err != nil || d.Get(k.Name) != c.Get(k.Name) {
				t.Fatalf("%s is %s, shown as %s, which is read as %s: %v", k.Name, c.Get(k.Name), c.Show(k.Name), d.Get(k.Name), err)
			}
		}
	})
}
