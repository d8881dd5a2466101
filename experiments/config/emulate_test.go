package config

import (
	"strings"
	"testing"
)

// What emulated NICs and devices cannot show is refused, by the key that asks for
// it.
func TestEmulateRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{`"emulate"`, "net=sim"},
		{`"emulate"`, "net=local", "mode=hogwild"},
		{`"network.rack"`, "net=local", "network.rack=2"},
		{`"network.per_host"`, "net=grpc", "network.per_host=2"},
		{`"constants.stream"`, "net=grpc", "constants.stream=1Gbps"},
		{`"constants.model"`, "net=grpc", "constants.model=fifo"},
		{`"constants.colocate"`, "net=grpc", "constants.colocate=true"},
	} {
		cfg := Default()
		for _, kv := range append(c[1:], "emulate=true") {
			k, v, _ := strings.Cut(kv, "=")
			if err := cfg.Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cfg.Resolve(); err == nil || !strings.Contains(err.Error(), "key "+c[0]) {
			t.Errorf("%v: error %v does not name key %s", c[1:], err, c[0])
		}
	}
}
