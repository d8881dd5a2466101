package config

import "testing"

// On a real clock it makes no difference what codecs are billed.
func TestCodecTimeInTheHash(t *testing.T) {
	t.Parallel()
	real, same := Default(), Default()
	real.Net, same.Net, same.DeviceCodec = "local", "local", "free"
	if real.Hash() != same.Hash() {
		t.Error("on a real clock the name says what codecs are billed")
	}
	if real.Net, same.Net = "sim", "sim"; real.Hash() == same.Hash() {
		t.Error("on a virtual clock it does not")
	}
	c := Default()
	if err := c.Set("device.codec", "0"); err != nil || mustResolve(t, c).Config().DeviceCodec != "free" {
		t.Errorf("0 is %q, %v", c.DeviceCodec, err)
	}
}
