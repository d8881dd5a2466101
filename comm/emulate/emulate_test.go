package emulate_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/comm/emulate"
	"github.com/gradlab/gradlab/comm/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// behind puts ranks of a net behind NICs.
func behind(net comm.Net, nic emulate.NIC) *emulate.Net {
	return &emulate.Net{Net: net, NIC: nic, Deadline: 20 * time.Second}
}

func TestNet(t *testing.T) {
	commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
		return behind(&local.Net{}, emulate.NIC{Bandwidth: 1e8, Latency: 200 * time.Microsecond, Message: 10 * time.Microsecond}).Run(ctx, ps)
	})
}
