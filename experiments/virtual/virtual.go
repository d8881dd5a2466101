// Package virtual starts the ranks of a program outside, such as a PyTorch script,
// and says how long it would take on a cluster (see comm/outside).
package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gradlab/gradlab/comm/outside"
	"github.com/gradlab/gradlab/experiments/config"
)

// Options say what is run, and where.
type Options struct {
	Keys  []string // key=value: cluster, transport, node, topology and network.*
	Speed float64  // how many times as fast as a core of this machine devices compute
	// Command is started once, and starts the ranks itself, as torchrun does; with Ranks
	// it is started as often, with PyTorch's RANK, WORLD_SIZE and the like.
	Command []string
	Ranks   int
	Stated  bool      // computing takes what the script says, not what was measured
	Record  io.Writer // nil, or where what the ranks did is kept, for Replay
	Env     []string  // of the ranks, as os.Environ gives it
	Stdout  io.Writer
	Stderr  io.Writer
}

// cluster makes what a world of so many ranks is played on.
func cluster(keys []string, world int, speed float64) (_ *outside.Cluster, c config.Config, err error) {
	r, err := config.Connected(world, keys)
	if err != nil {
		return nil, c, err
	}
	n, err := r.VirtualNet(0, 0)
	if err != nil {
		return nil, c, err
	}
	c = r.Config()
	return &outside.Cluster{Net: n, Topology: r.Topology(), PerHost: c.NetworkPerHost, Speed: speed}, c, nil
}

// Check says what is wrong with keys and speed, before anything is started.
func (o *Options) Check() error {
	_, _, err := cluster(o.Keys, max(o.Ranks, 2), o.Speed)
	if err == nil && !(o.Speed > 0) {
		err = fmt.Errorf("--speed %v: want more than 0", o.Speed)
	}
	return err
}

// Run starts the ranks and plays what they do while they do it. Whatever happens, no
// process is left behind.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, &config.Error{Err: err}
	}
	dir, err := os.MkdirTemp("", "gradlab-virtual-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	procs, err := start(ctx, o, path)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := procs.wait()
		l.Close() // who has ended calls no more
		ended <- err
	}()
	r, err := o.play(ctx, l)
	if err != nil { // where a process is why, it ends, and the others are ended then
		defer time.AfterFunc(lastWord, procs.kill).Stop()
	}
	failed := <-ended
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case failed != nil && !procs.killed():
		return nil, failed
	}
	return r, err
}

// lastWord is how long processes may go on when the cluster has ended in an error.
const lastWord = 5 * time.Second

// play takes the ranks at a listener.
func (o *Options) play(ctx context.Context, l net.Listener) (*Result, error) {
	sources, all, err := outside.Accept(ctx, l, o.Record)
	if err != nil {
		if errors.Is(err, net.ErrClosed) && sources == nil {
			err = errors.New(`the command has ended, and not all ranks had called init_process_group("gradlab")`)
		}
		return nil, err
	}
	defer all.Close()
	return play(ctx, o.Keys, o.Speed, sources)
}

// Replay plays what Run kept on another cluster.
func Replay(ctx context.Context, record io.Reader, keys []string, speed float64) (*Result, error) {
	o := Options{Keys: keys, Speed: speed}
	if err := o.Check(); err != nil {
		return nil, &config.Error{Err: err}
	}
	sources, err := outside.Recorded(record)
	if err != nil {
		return nil, err
	}
	return play(ctx, keys, speed, sources)
}

func play(ctx context.Context, keys []string, speed float64, sources []outside.Source) (*Result, error) {
	on, c, err := cluster(keys, len(sources), speed)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	ranks, err := on.Play(ctx, sources)
	if err != nil {
		return nil, err
	}
	return newResult(c, speed, ranks), nil
}
