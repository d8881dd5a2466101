package bench

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os/exec"
	"strconv"
)

//go:embed gloo.py
var glooScript string

// startGloo starts a torch.distributed group of n.
func (t *Torch) startGloo(ctx context.Context, n int) (g *group, version string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, "gloo", err
	}
	g = &group{}
	defer func() {
		if err != nil {
			g.end()
		}
	}()
	for rank := range n {
		cmd := exec.CommandContext(ctx, t.Python, "-c", notHere+glooScript,
			strconv.Itoa(rank), strconv.Itoa(n), strconv.Itoa(port), strconv.Itoa(cores(n)))
		cmd.Env = append(t.environ[:len(t.environ):len(t.environ)], "OMP_NUM_THREADS="+strconv.Itoa(cores(n)))
		m, err := startChild(fmt.Sprintf("gloo, rank %d", rank), cmd, t.patience)
		if err != nil {
			return g, "gloo", err
		}
		g.procs, g.ins = append(g.procs, m), append(g.ins, m.in)
	}
	var hello struct{ Version string }
	err = g.hear(ctx, &hello)
	return g, "gloo of PyTorch " + hello.Version, err
}

// freePort is one that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
