package experiments

import "testing"

// On a virtual device that takes longer than this machine an emulated run keeps
// to its times, and comes to the bits of the virtual cluster.
func TestEmulatedRun(t *testing.T) {
	t.Parallel()
	keys := []string{"data=digits", "model=mlp(hidden=[16])", "mode=reduce", "workers=2", "batch=4", "steps=5", "epochs=0", "transport=ideal", "device.flops=5e6", "network.bandwidth=1Gbps"}
	virtual := mustExecute(t, append(keys, "net=sim")...)
	real := mustExecute(t, append(keys, "net=local", "emulate=true")...)
	if real.ParamsSHA256 != virtual.ParamsSHA256 || real.BytesUp != virtual.BytesUp {
		t.Errorf("%s with %d bytes; the virtual cluster has %s with %d", real.ParamsSHA256, real.BytesUp, virtual.ParamsSHA256, virtual.BytesUp)
	}
	if virtual.Strain != nil || real.Strain == nil || real.Strain.Works != 10 || real.Strain.Frames == 0 {
		t.Errorf("strain %+v, of the virtual cluster %+v", real.Strain, virtual.Strain)
	}
	if real.WallSeconds < virtual.VirtualSeconds {
		t.Errorf("took %v s, and %v on the virtual cluster", real.WallSeconds, virtual.VirtualSeconds)
	}
}
