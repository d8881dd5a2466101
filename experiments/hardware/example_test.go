package hardware_test

import (
	"fmt"

	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/profile"
)

// A device is the rates it was measured at, a cluster the keys that describe it.
func Example() {
	d, err := hardware.Load(hardware.Device, "v100")
	if err != nil {
		panic(err)
	}
	flops, known := d.FLOPS(profile.Profiles.MustParse("resnet50").Profile())
	fmt.Printf("%s on resnet50: %.1f TFLOP/s, measured: %v\n", d.Name, flops/1e12, known)
	c, err := hardware.Load(hardware.Cluster, "piz-daint")
	if err != nil {
		panic(err)
	}
	for _, p := range c.Sets() {
		fmt.Println(p.Key)
	}
	// Output:
	// v100 on resnet50: 9.5 TFLOP/s, measured: true
	// device
	// network.latency
	// constants.colocate
	// network.bandwidth
	// constants.overhead
	// device.law.sigma
}
