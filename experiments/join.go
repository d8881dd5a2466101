package experiments

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
)

// JoinOptions says which rank of which run a process is.
type JoinOptions struct {
	Rank        int
	Coordinator string // address of the launcher, or of rank 0
	Listen      string // default 127.0.0.1:0
	TokenFile   string // holds the run's secret
	Insecure    bool   // permits plain text beyond loopback
	Places      Places
	Stopping    func() bool
	Logf        func(format string, args ...any)
}

// Join runs one rank of a run whose observer is another process, the launcher.
func Join(ctx context.Context, c Config, o JoinOptions) error {
	job, err := c.Build(ctx, o.Places, nil)
	if err != nil {
		return err
	}
	job.Stopping = o.Stopping
	if o.Rank < 0 || o.Rank >= job.World() {
		return fmt.Errorf("rank is %d, want 0 … %d", o.Rank, job.World()-1)
	}
	token, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	p, err := job.Mode.Program(job, o.Rank)
	if err != nil {
		return err
	}
	defer limitThreads(c.Threads)()
	net, err := grpcnet.New(grpcnet.Config{
		Ranks: []int{o.Rank}, World: job.World() + 1, Coordinator: o.Coordinator, Listen: o.Listen,
		Identity: Identity(c, job), Token: strings.TrimSpace(string(token)), Run: job.Run, Insecure: o.Insecure,
		JoinTimeout: time.Minute, Logf: o.Logf,
	})
	if err != nil {
		return err
	}
	defer net.Close()
	return net.Run(ctx, []comm.Program{p})
}
