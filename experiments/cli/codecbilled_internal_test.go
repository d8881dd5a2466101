package cli

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/coding"
)

// A codec that takes much longer than the table of rates has it is said to be another one,
// with what to type; one that takes less time is not.
func TestRatesOfAnotherCodecAreTold(t *testing.T) {
	t.Parallel()
	const spec = "topk(keep=0.01)"
	for _, times := range []float64{0.01, 1, 4.9} {
		if s := (&codecBilled{coding.Default, times}).words(spec); strings.Contains(s, "device.codec") {
			t.Errorf("%g times: %s", times, s)
		}
	}
	s := (&codecBilled{coding.Default, 11}).words(spec)
	for _, want := range []string{"11 times", coding.Default, "device.codec=here", "gradlab bench codecs '" + spec + "' --out"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in %s", want, s)
		}
	}
}
