package local_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/comm/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNet(t *testing.T) {
	commtest.Net(t, func(ctx context.Context, ps []comm.Program) error {
		return (&local.Net{}).Run(ctx, ps)
	})
}
