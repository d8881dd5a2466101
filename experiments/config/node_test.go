package config

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// A node sets its keys; what a cluster or the user says of them stays, and another node
// takes back what the one before set.
func TestNodes(t *testing.T) {
	t.Parallel()
	r, err := ParseRecipe("test", "test.yaml", []byte("constants.bridge: 50GB/s\nnode: host-staged\ncluster: big-basin\ntransport: mpi-tcp\n"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if c := runs[0].Config; c.NetworkInside != 4e10 || c.Constants.Bridge != 5e10 || c.Constants.Stream != 3.9e9 || c.Constants.Reduce != 1.5e9 {
		t.Errorf("inside %g, bridge %g, stream %g, reduce %g", c.NetworkInside, c.Constants.Bridge, c.Constants.Stream, c.Constants.Reduce)
	}
	c := Default()
	for _, name := range []string{"host-staged", "nvlink-v100", "none"} {
		if err := c.Set("node", name); err != nil {
			t.Fatal(err)
		}
	}
	if c != Default() {
		t.Errorf("what a node set stays: %+v", c)
	}
}

// Every node says where each value is from and sets only keys that there are, none of them a
// transport's. The unknown one is the geometric middle of what the others give each of eight
// devices, and as wide as they are apart.
func TestEveryNode(t *testing.T) {
	t.Parallel()
	var logs []float64
	for _, name := range hardware.Names(hardware.Node) {
		n, err := hardware.Load(hardware.Node, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if n.About == "" || n.Source == "" {
			t.Errorf("%s: about and source must be given", name)
		}
		for _, other := range hardware.Names(hardware.Transport) {
			tr, err := hardware.Load(hardware.Transport, other)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range tr.Keys {
				if slices.ContainsFunc(n.Keys, func(q hardware.Parameter) bool { return q.Key == p.Key }) {
					t.Errorf("node %s and transport %s both set %s", name, other, p.Key)
				}
			}
		}
		c := Default()
		if err := c.Set("node", name); err != nil {
			t.Error(err)
			continue
		}
		if name != hardware.Unknown {
			each := c.NetworkInside
			if c.Constants.Bridge > 0 {
				each = min(each, float64(c.Constants.Bridge)/8)
			}
			logs = append(logs, math.Log(each))
		}
	}
	mean, variance := 0.0, 0.0
	for _, x := range logs {
		mean += x / float64(len(logs))
	}
	for _, x := range logs {
		variance += (x - mean) * (x - mean) / float64(len(logs)-1)
	}
	n, err := hardware.Load(hardware.Node, hardware.Unknown)
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	if err := c.Set("node", hardware.Unknown); err != nil {
		t.Fatal(err)
	}
	if middle := math.Exp(mean); math.Abs(c.NetworkInside/middle-1) > 0.05 {
		t.Errorf("unknown: %g inside, the others' middle is %g", c.NetworkInside, middle)
	}
	if sd := math.Exp(math.Sqrt(variance)); math.Abs(n.Keys[0].Times/sd-1) > 0.05 {
		t.Errorf("unknown: a spread of %g, the others' is %g", n.Keys[0].Times, sd)
	}
}

// What nobody says of a node varies, and nothing else of it: not what the user or the
// cluster says, nor what is inside a host of one device.
func TestSpreadOfNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, node, want string }{
		{"", "", ""},
		{"network.per_host=4", "unknown", "network.inside=36GB/s"},
		{"network.per_host=4 network.inside=50GB/s", "", ""},
		{"cluster=big-basin", "", ""},
		{"node=nvlink-v100 network.per_host=4", "nvlink-v100", "network.inside=130GB/s"},
		{"node=nvlink-v100 network.per_host=4 network.inside=120GB/s", "", ""},
		{"node=nvlink-v100", "", ""},
		{"node=pcie-tree network.per_host=8 constants.bridge=20GB/s", "pcie-tree", "network.inside=10GB/s"},
		{"node=host-staged", "host-staged", "constants.stream=3.9GB/s"},
		{"node=host-staged network.per_host=2", "host-staged", "network.inside=3.9GB/s constants.bridge=31GB/s constants.stream=3.9GB/s"},
	} {
		f := Default()
		for _, a := range strings.Fields(c.keys) {
			key, value, _ := strings.Cut(a, "=")
			if err := f.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		s, err := mustResolve(t, f).Spread()
		if err != nil {
			t.Fatal(err)
		}
		node := ""
		if s.Node != nil {
			node = s.Node.Name
		}
		var got []string
		for _, p := range s.Parameters() {
			if p.Key == "network.inside" || p.Key == "constants.bridge" || p.Key == "constants.stream" {
				got = append(got, p.Key+"="+p.Value)
			}
		}
		if node != c.node || strings.Join(got, " ") != c.want {
			t.Errorf("%q: node %q, %q vary; want %q, %q", c.keys, node, got, c.node, c.want)
		}
		middle := slices.Repeat([]float64{0.5}, s.Len())
		d, _, err := s.Draw(middle)
		if err != nil {
			t.Fatal(err)
		}
		if want := c.node == hardware.Unknown; (d.Get("network.inside") != f.Get("network.inside")) != want {
			t.Errorf("%q: in the middle inside is %s, the key is %s", c.keys, d.Get("network.inside"), f.Get("network.inside"))
		}
	}
}
