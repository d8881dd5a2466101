package experiments

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
)

// The replay of a run takes the run's time and bytes; with other keys it takes
// those of a run with these keys.
func TestWhatIf(t *testing.T) {
	for name, keys := range map[string][]string{
		"server":   {"mode=server", "servers=2", "codec=qsgd(bits=4)"},
		"ring":     {"mode=reduce", "overlap=true", "cycle=100us"},
		"computed": {"mode=server", "codec=feedback(topk(keep=0.1,index=rice))"}, // sizes depend on gradients
	} {
		t.Run(name, func(t *testing.T) {
			keys = append(keys, "eval_every=0")
			r := mustExecute(t, keys...)
			w, err := AskWhatIf(context.Background(), r.Folder, []string{"network.bandwidth=10Mbps,1Gbps"}, Places{})
			if err != nil {
				t.Fatal(err)
			}
			near := func(what string, got, want float64) {
				t.Helper()
				if math.Abs(got/want-1) > 1e-6 {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			near("seconds", w.Was.Seconds, r.VirtualSeconds)
			near("bytes", w.Was.BytesUp, float64(r.BytesUp))
			if len(w.Is) != 2 || w.Is[0].Name != "network.bandwidth=1.25e+06" || w.Was.Weightless == (name == "computed") {
				t.Fatalf("%+v", w)
			}
			slow := mustExecute(t, append(keys, "network.bandwidth=10Mbps")...)
			near("seconds at 10 Mb/s", w.Is[0].Seconds, slow.VirtualSeconds)
			var b bytes.Buffer
			if err := w.Write(&b, "markdown"); err != nil || !strings.Contains(b.String(), "off by +0.00 %") {
				t.Errorf("%v\n%s", err, b.String())
			}
			var config *ConfigError
			if _, err := AskWhatIf(context.Background(), r.Folder, []string{"data=mnist"}, Places{}); !errors.As(err, &config) {
				t.Errorf("other data: %v", err)
			}
		})
	}
}
