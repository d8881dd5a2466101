package ask

import (
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/experiments/config"
)

// post is a virtual cluster on which every frame takes as long; posing is one that is none.
type post struct {
	Delay  time.Duration
	Posing bool
}

var _ = config.Nets.Add("post", "frames all take as long", post{Delay: time.Second})

func (post) Traits() config.NetTraits { return config.NetTraits{Virtual: true, Traces: true} }

func (n post) New(_ *config.Resolved, _ int, start time.Duration) (comm.Net, error) {
	v := &sim.Net{Start: start, Network: &sim.FIFO{Latency: n.Delay}}
	if n.Posing {
		return struct{ comm.Net }{v}, nil
	}
	return v, nil
}

// What is measured of a run on a virtual net of one's own is that net's, not net=sim's.
func TestMeasureOwnNet(t *testing.T) {
	t.Parallel()
	measure := func(net string) (float64, error) {
		c := config.Default()
		for _, kv := range [][2]string{{"net", net}, {"mode", "reduce"}, {"model", "logistic"}, {"workers", "2"}, {"epochs", "0"}, {"steps", "3"}, {"device.codec", "free"}} {
			if err := c.Set(kv[0], kv[1]); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Measure(t.Context(), c, Watch{})
		if err != nil {
			return 0, err
		}
		return m.Ends[len(m.Ends)-1], nil
	}
	for net, want := range map[string]float64{"post": 6, "post(delay=2s)": 12} { // there and back, in each of three steps
		if got, err := measure(net); err != nil || got < want || got > 1.01*want {
			t.Errorf("%s: %v s, %v; want %v", net, got, err, want)
		}
	}
	if _, err := measure("post(posing=true)"); err == nil || !strings.Contains(err.Error(), "no *sim.Net") {
		t.Errorf("of a net that claims to be virtual: %v", err)
	}
	if _, err := measure("local"); err == nil || !strings.Contains(err.Error(), "net=local: only runs on a virtual cluster") {
		t.Errorf("on a real clock: %v", err)
	}
}
