package config

import "testing"

// Folders of before keep their meaning and their names: nothing was billed, or one
// rate. What is billed now has another name.
func TestCodecTimeOfOldFolders(t *testing.T) {
	t.Parallel()
	parse := func(text string) Config {
		t.Helper()
		c, _, err := ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for text, want := range map[string]string{"": "free", "device.codec: 0\n": "free", "device.codec: 1e+09\n": "1GB/s", "device.codec: 2.5e+06\n": "2.5MB/s", "device.codec: 40xmeasured\n": "40xmeasured"} {
		if c := parse(text); c.DeviceCodec != want {
			t.Errorf("%q is read as %q, want %q", text, c.DeviceCodec, want)
		}
	}
	free, rate := Default(), Default()
	free.DeviceCodec, rate.DeviceCodec = "free", "1GB/s"
	const none, flat = "e3b0c44298fc", "8417842327a9" // of no keys, and of device.codec="1e+09"
	if free.Hash() != none || parse("").Hash() != none || Default().Hash() == none {
		t.Errorf("free is %s, an old folder %s, the default %s", free.Hash(), parse("").Hash(), Default().Hash())
	}
	if rate.Hash() != flat || parse("device.codec: 1e+09\n").Hash() != flat {
		t.Errorf("a rate is %s", rate.Hash())
	}
	real, same := Default(), Default()
	real.Net, same.Net, same.DeviceCodec = "local", "local", "free"
	if real.Hash() != same.Hash() {
		t.Error("on a real clock the name says what codecs are billed")
	}
	c := Default()
	if err := c.Set("device.codec", "0"); err != nil || c.Resolve() != nil || c.DeviceCodec != "free" {
		t.Errorf("0 is %q, %v", c.DeviceCodec, err)
	}
}
