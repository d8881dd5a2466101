package sim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
)

// When a rank dies without which the others do not go on, and comes back, all meet again at
// that instant, or when the last of them is back. Where one does not come back its death is
// news like any other.
func TestAllMeetAgain(t *testing.T) {
	t.Parallel()
	for faults, want := range map[string][]time.Duration{
		"kill(s0,at=1s)+rejoin(s0,at=3s)":                                                                    {3 * time.Second},
		"kill(s0,at=1s)+rejoin(s0,at=1s)":                                                                    {time.Second},
		"kill(s0,at=1s)+rejoin(s0,at=3s)+kill(s1,at=2s)+rejoin(s1,at=5s)":                                    {5 * time.Second},
		"kill(s0,at=1s)+rejoin(s0,at=3s)+kill(s1,at=2s)":                                                     nil,
		"kill(s0,at=1s)+rejoin(s0,at=3s)+kill(observer,at=2s)":                                               nil,
		"kill(s0,at=1s)+rejoin(s0,at=2s)+kill(s1,at=4s)+rejoin(s1,at=5s)+kill(w0,at=1500ms)+kill(s0,at=20s)": {2 * time.Second, 5 * time.Second},
		"pause(s0,at=1s,for=8s)+rejoin(s0,at=4s)":                                                            {4 * time.Second},
		"partition([s0],at=1s,for=3s)+rejoin(s0,at=4s)":                                                      {4 * time.Second},
		"kill(observer,at=1s)+rejoin(observer,at=3s)":                                                        {3 * time.Second},
		"kill(s0,at=1s)+rejoin(s0,at=3s)+kill(observer,at=2s)+rejoin(observer,at=5s)":                        {5 * time.Second},
		"kill(observer,at=1s)+rejoin(observer,at=3s)+kill(s0,at=2s)":                                         nil,
		"kill(s0,at=1s)":                  nil,
		"kill(w0,at=1s)+rejoin(w0,at=2s)": nil,
	} {
		schedule, err := nemesis.Parse(faults)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := schedule.Plan(nemesis.World{Workers: 2, Servers: 2})
		if err != nil {
			t.Fatal(err)
		}
		n := &sim.Net{Faults: plan, Lease: 2 * time.Second, Fixed: []int{2, 3, 4}}
		var programs []comm.Program
		for r := range 5 {
			programs = append(programs, func(ctx context.Context, h comm.Host) error {
				if h.Now() != n.Start && len(want) > 0 {
					t.Errorf("%s: rank %d begins at %v, and all meet at %v", faults, r, h.Now(), n.Start)
				}
				return h.Sleep(ctx, 10*time.Second)
			})
		}
		meets := len(want) > 0
		var at []time.Duration
		for {
			err = n.Run(t.Context(), programs)
			if !errors.As(err, new(*comm.AgainError)) {
				break
			}
			if at = append(at, n.Now()); n.Start != n.Now() || len(at) > 3 {
				t.Fatalf("%s: all meet at %v, and begin at %v", faults, at, n.Start)
			}
		}
		for _, w := range want {
			if len(at) == 0 || at[0] != w {
				break
			}
			at, want = at[1:], want[1:]
		}
		if len(at)+len(want) > 0 {
			t.Errorf("%s: all meet at %v more, want %v more", faults, at, want)
		}
		if lost := strings.Contains(faults, "observer") && !meets; (err != nil) != lost {
			t.Errorf("%s: %v", faults, err)
		}
	}
}
