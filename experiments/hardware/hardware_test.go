package hardware

import (
	"testing"

	"github.com/gradlab/gradlab/sgd/profile"
)

// Every file can be read, says where it is from, and names only what exists.
func TestFiles(t *testing.T) {
	for _, name := range Names(Device) {
		d, err := Load(Device, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if d.About == "" || d.Source == "" || len(d.Rates) == 0 {
			t.Errorf("device %s: about, source and rates must be given: %+v", name, d)
		}
		if d.Memory < 1e10 || d.Memory > 1e13 {
			t.Errorf("device %s: memory of %g bytes a second", name, d.Memory)
		}
		for p, r := range d.Rates {
			spec, err := profile.Profiles.Parse(p)
			if err != nil || r.Batch < 1 || !(r.Rate > 0) {
				t.Errorf("device %s, %s: %+v (%v)", name, p, r, err)
				continue
			}
			if flops, known := d.FLOPS(spec.Profile()); !known || flops < 1e10 || flops > 1e15 {
				t.Errorf("device %s makes %g FLOP/s on %s", name, flops, p)
			}
		}
	}
	for _, name := range Names(Cluster) {
		c, err := Load(Cluster, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if c.About == "" || c.Source == "" || len(c.Sets()) == 0 {
			t.Errorf("cluster %s: about, source and keys must be given: %+v", name, c)
		}
	}
	if _, err := Load(Cluster, "piz-dant"); err == nil {
		t.Error("a cluster that does not exist was read")
	}
}

// The mean over networks is the same to the last bit, however often it is taken:
// the times of virtual clusters follow from it.
func TestMeanSpeedIsAlwaysTheSame(t *testing.T) {
	p := &profile.Profile{Name: "none of them"}
	for _, name := range Names(Device) {
		d, err := Load(Device, name)
		if err != nil {
			t.Fatal(err)
		}
		first, known := d.FLOPS(p)
		for range 200 {
			if again, _ := d.FLOPS(p); known || again != first {
				t.Errorf("%s: %v, then %v", name, first, again)
				break
			}
		}
	}
}
