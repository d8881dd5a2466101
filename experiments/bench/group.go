package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// group is a set of processes that talk to each other. Each hears commands, a
// line each; the first answers with a line of JSON. Between commands they wait
// for the next one and use no core, so that groups can take turns.
type group struct {
	procs []*child
	ins   []io.WriteCloser // where each rank hears commands
}

// groupPatience is how long a group may take for one command.
const groupPatience = 2 * time.Minute

// ask gives all processes a command and waits for the answer of the first.
func (g *group) ask(ctx context.Context, command string, answer any) error {
	for _, in := range g.ins {
		if _, err := io.WriteString(in, command+"\n"); err != nil {
			break // who is gone says so below
		}
	}
	return g.hear(ctx, answer)
}

// hear waits for the answer of the first process. Another one that has ended may
// know better why there is none.
func (g *group) hear(ctx context.Context, answer any) error {
	err := g.procs[0].hear(ctx, answer)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for _, m := range g.procs[1:] {
		select {
		case <-m.ended:
			err = errors.Join(err, m.gone())
		default:
		}
	}
	return err
}

// cpu is the processor time that the processes of the group, and those that they started,
// have taken so far, in seconds.
func (g *group) cpu() (seconds float64) {
	if g == nil {
		return 0
	}
	var roots []int
	for _, m := range g.procs {
		roots = append(roots, m.cmd.Process.Pid)
	}
	return cpuOf(roots)
}

// end ends all processes.
func (g *group) end() {
	for _, in := range g.ins {
		_ = in.Close()
	}
	for _, m := range g.procs {
		m.end()
	}
}

// startOurs starts a group of ours; opt is the same for all but the rank and the
// coordinator.
func (o *WireOptions) startOurs(ctx context.Context, opt rankOptions) (g *group, err error) {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	opt.Token, opt.Threads = hex.EncodeToString(secret[:]), cores(opt.World)
	g = &group{}
	defer func() {
		if err != nil && g != nil {
			g.end()
		}
	}()
	if opt.Links == LinksTLS {
		if opt.Certificate, err = newCertificate(); err != nil {
			return nil, err
		}
	}
	if opt.Links == LinksMPI {
		if g, err = startJob(ctx, mpiJob{"ours over MPI", "mpirun", "", o.Environ, groupPatience}, opt.World, o.Self...); err != nil {
			return g, err
		}
		for opt.Rank = range opt.World {
			line, err := json.Marshal(opt)
			if err != nil {
				return g, err
			}
			if _, err := g.ins[opt.Rank].Write(append(line, '\n')); err != nil {
				return g, g.procs[0].gone()
			}
		}
		return g, g.hear(ctx, &struct{}{})
	}
	for opt.Rank = range opt.World {
		cmd := exec.CommandContext(ctx, o.Self[0], o.Self[1:]...)
		cmd.Env = o.Environ
		m, err := startChild(fmt.Sprintf("ours over %s, rank %d", opt.Links, opt.Rank), cmd, groupPatience)
		if err != nil {
			return g, err
		}
		g.procs, g.ins = append(g.procs, m), append(g.ins, m.in)
		line, err := json.Marshal(opt)
		if err != nil {
			return g, err
		}
		if _, err := m.in.Write(append(line, '\n')); err != nil {
			return g, m.gone()
		}
		if opt.Rank == 0 {
			var hello struct{ Address string }
			if err := m.hear(ctx, &hello); err != nil {
				return g, err
			}
			opt.Coordinator = hello.Address
		}
	}
	return g, g.hear(ctx, &struct{}{})
}
