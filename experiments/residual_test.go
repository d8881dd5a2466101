package experiments

import (
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

// The ledger tells what error feedback had yet to send where that was given up, and of how
// many workers nobody knows it. Codecs that keep nothing lose nothing.
func TestLedgerOfResiduals(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	keys := []string{"data=digits", "model=logistic", "workers=4", "epochs=0", "batch=8", "steps=30", "device.flops=1M", "network.latency=100us"}
	whole := mustExecute(t, append(keys, "mode=server", "policy=asp")...)
	at := time.Duration(whole.VirtualSeconds * 0.4e9)
	for _, c := range []struct {
		more    []string
		lost    bool
		unknown int
	}{
		{[]string{"mode=reduce", "elastic=on", "codec=feedback(topk(keep=0.1))", "faults=leave(w2,before=6)+join(w2,before=12)"}, true, 0},
		{[]string{"mode=reduce", "elastic=on", "codec=feedback(topk(keep=0.1))", deaths(4, at)}, false, 1},
		{[]string{"mode=reduce", "elastic=on", "codec=topk(keep=0.1)", deaths(4, at) + "+leave(w2,before=6)"}, false, 0},
		{[]string{"mode=server", "policy=asp", "codec=feedback(topk(keep=0.1))", deaths(4, at, at)}, false, 2},
		{[]string{"mode=server", "policy=asp", "codec=topk(keep=0.1)", deaths(4, at, at)}, false, 0},
	} {
		l := mustExecute(t, append(keys, c.more...)...).Ledger
		if l.ResidualLost > 0 != c.lost || l.ResidualUnknown != c.unknown {
			t.Errorf("%v: %v is lost, and that of %d workers is unknown", c.more, l.ResidualLost, l.ResidualUnknown)
		}
	}
}
