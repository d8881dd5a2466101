package experiments

import (
	"testing"
	"time"
)

// Asynchronous runs, and those of mode sandblaster, go on without the dead, say
// so, and account for what they had sent.
func TestWorkersDie(t *testing.T) {
	keys := []string{"data=digits", "model=logistic", "workers=6", "epochs=0", "batch=8", "servers=2", "device.flops=1M", "network.latency=100us"}
	for _, more := range [][]string{
		{"mode=downpour(n_push=2)", "policy=asp", "steps=150"}, {"policy=asp", "overlap=true", "steps=200"}, {"policy=ssp(slack=2)", "steps=200"}, {"mode=sandblaster", "steps=12"},
	} {
		set := append(append([]string{}, keys...), more...)
		whole := mustExecute(t, set...)
		at := time.Duration(whole.VirtualSeconds * 0.4e9)
		r := mustExecute(t, append(set, "device.die=2@"+at.String()+"+1@"+(at+at/2).String())...)
		l := r.Ledger
		if !r.Degraded || len(r.Lost) != 3 || l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 || r.Steps != whole.Steps {
			t.Errorf("%v: degraded %v, lost %q, %d steps, ledger %+v", more, r.Degraded, r.Lost, r.Steps, l)
		}
	}
}
