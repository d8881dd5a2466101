package config

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// A transport sets its keys; what a cluster or the user says of them stays, and another
// transport takes back what the one before set.
func TestTransports(t *testing.T) {
	t.Parallel()
	r, err := ParseRecipe("test", "test.yaml", []byte("network.share: 0.5\ntransport: mpi-tcp\ncluster: big-basin\n"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	c := runs[0].Config
	if c.NetworkShare != 0.5 || c.NetworkReduce != 1.5e9 || c.DeviceJitter != 0.064 || c.DeviceOverhead != 0.027 {
		t.Errorf("share %g, reduce %g, jitter %g, overhead %g", c.NetworkShare, c.NetworkReduce, c.DeviceJitter, c.DeviceOverhead)
	}
	c = Default()
	for _, name := range []string{"mpi-tcp", "nccl-rdma", "none"} {
		if err := c.Set("transport", name); err != nil {
			t.Fatal(err)
		}
	}
	if c != Default() {
		t.Errorf("what a transport set stays: %+v", c)
	}
}

// Every transport says where each value is from, sets only keys that there are, and
// draws stay within what these allow, at the ends of the distributions too.
func TestEveryTransport(t *testing.T) {
	t.Parallel()
	for _, name := range hardware.Transports() {
		tr, err := hardware.LoadTransport(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if tr.About == "" || tr.Source == "" || !(tr.Site > 0) {
			t.Errorf("%s: about, source and site must be given", name)
		}
		c := Default()
		if err := c.Set("transport", name); err != nil {
			t.Error(err)
			continue
		}
		s, err := c.Spread()
		if err != nil {
			t.Error(err)
			continue
		}
		for _, q := range []float64{1e-6, 0.5, 1 - 1e-6} {
			at := make([]float64, s.Len())
			for i := range at {
				at[i] = q
			}
			d, factor, err := s.Draw(at)
			if err != nil || !(factor > 0) {
				t.Errorf("%s at %g: factor %g, %v", name, q, factor, err)
			}
			if q == 0.5 && (math.Abs(factor-1) > 1e-12 || d.Get("network.share") != c.Get("network.share")) {
				t.Errorf("%s: its middle is not its value", name)
			}
		}
	}
}
