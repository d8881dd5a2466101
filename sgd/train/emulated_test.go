package train_test

import (
	"maps"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

// emulated is the virtual cluster of simulated, on the real clock.
func emulated(below comm.Net) comm.Net {
	return &emulate.Net{Net: below, NIC: emulate.NIC{Bandwidth: 1e8, Latency: 100 * time.Microsecond}, Deadline: time.Minute}
}

// Behind emulated NICs and devices every mode comes to the same end as on the
// virtual cluster, to the bit where somebody waits, and no earlier.
func TestEmulated(t *testing.T) {
	t.Parallel()
	type run struct {
		free bool // bits depend on who comes first
		opts []option
	}
	runs := map[string]run{}
	for name, opts := range roads {
		runs[name] = run{false, opts}
	}
	for name := range maps.Keys(asynchronous) {
		runs[name] = run{true, append(asynchronous[name], rate("constant(lr=0.002)"))}
	}
	for _, c := range apart {
		runs[c.name] = run{c.free, c.opts}
	}
	for name, r := range runs {
		if r.free && !patience.Long {
			continue
		}
		t.Run(name, func(t *testing.T) {
			opts := append(r.opts, func(j *train.Job) { j.Updates, j.Timing.FLOPS = 8*each(j), 5e7 })
			vir, _ := runOn(t, simulated(0), job(t, opts...), nil)
			real, _ := runOn(t, emulated(&local.Net{}), job(t, opts...), nil)
			if real.Final.Step != vir.Final.Step {
				t.Errorf("ended with %+v, on the virtual cluster with %+v", real.Final, vir.Final)
			}
			if !r.free {
				if real.SHA256 != vir.SHA256 || real.Final.BytesUp != vir.Final.BytesUp || real.Final.BytesDown != vir.Final.BytesDown {
					t.Errorf("other bits or bytes: %+v, on the virtual cluster %+v", real.Final, vir.Final)
				}
				if real.Final.Seconds < 0.95*vir.Final.Seconds {
					t.Errorf("took %v s, on the virtual cluster %v", real.Final.Seconds, vir.Final.Seconds)
				}
			}
			works := uint64(0)
			for _, rep := range real.Reports {
				if rep.Strain == nil {
					t.Fatalf("rank %d tells nothing of its strain", rep.Rank)
				}
				works += rep.Strain.Works
			}
			if works == 0 {
				t.Error("nothing was computed")
			}
		})
	}
}
