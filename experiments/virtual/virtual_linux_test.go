package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/experiments/virtual"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// python is an interpreter that has torch.
func python(t *testing.T) string {
	t.Helper()
	if !patience.Long {
		t.Skip("starts processes")
	}
	return program.Python(t, "torch")
}

// run runs a script and returns what it printed.
func run(t *testing.T, o virtual.Options) (*virtual.Result, string) {
	t.Helper()
	var out, errs bytes.Buffer
	o.Env, o.Stdout, o.Stderr, o.Speed = os.Environ(), &out, &errs, 1
	r, err := virtual.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	return r, strings.TrimSpace(out.String())
}

func TestEveryOperation(t *testing.T) {
	t.Parallel()
	r, _ := run(t, virtual.Options{Command: []string{python(t), "testdata/operations.py"}, Ranks: 3, Stated: true})
	var names []string
	for _, o := range r.Operations {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	// Rank 0 receives nothing.
	if want := "all_gather all_reduce all_to_all barrier broadcast gather reduce reduce_scatter scatter send"; strings.Join(names, " ") != want {
		t.Errorf("rank 0 made %v; want %s", names, want)
	}
}

// Functional collectives are billed for what they move, whichever way they come to the group,
// and what is built on device meshes gives the numbers of one process.
func TestTodaysPyTorch(t *testing.T) {
	t.Parallel()
	exe := python(t)
	for what, want := range map[string]map[string]uint64{
		"bytes":      {"all_reduce": 10000, "all_gather": 10000, "reduce_scatter": 10000, "all_to_all": 4000, "broadcast": 4000},
		"frameworks": nil,
	} {
		r, out := run(t, virtual.Options{Command: []string{exe, "testdata/today.py", what}, Ranks: 4, Stated: true})
		if strings.HasPrefix(out, "older") {
			t.Skip("PyTorch before 2.15")
		}
		if !strings.HasSuffix(out, "fine") {
			t.Errorf("%s: %s", what, out)
		}
		for _, o := range r.Operations {
			if want != nil && o.Bytes != want[o.Name] {
				t.Errorf("%s of %d bytes; want %d", o.Name, o.Bytes, want[o.Name])
			}
			delete(want, o.Name)
		}
		if len(want) > 0 {
			t.Errorf("nothing was billed of %v", want)
		}
	}
}

// The clock is told of every wait, by whatever it is.
func TestWaits(t *testing.T) {
	t.Parallel()
	exe := python(t)
	r, _ := run(t, virtual.Options{Command: []string{exe, "testdata/waits.py", "fp16", "powersgd", "none"}, Ranks: 2, Stated: true,
		Keys: []string{"network.bandwidth=8Mbps", "network.latency=0s", "transport=ideal"}})
	if r.Steps != 12 {
		t.Errorf("%d steps; want 4 of each of three hooks", r.Steps)
	}
	var errs bytes.Buffer
	many, err := virtual.Run(t.Context(), virtual.Options{Command: []string{exe, "-c", `
import torch, torch.distributed as dist, gradlab.virtual
dist.init_process_group("gradlab")
for step in range(5):
    torch.futures.wait_all([dist.all_reduce(torch.ones(9), async_op=True).get_future() for _ in range(120)])
`}, Ranks: 4, Speed: 1, Stated: true, Env: os.Environ(), Stdout: &errs, Stderr: &errs})
	if err != nil || many.Operations[0].Number != 600 {
		t.Errorf("many sums: %+v, %v\n%s", many, err, &errs)
	}
}

// A script learns the same bits as with gloo, and takes what its steps are said to cost
// and its bytes take. What is recorded takes the same time again, and on a slow network more.
func TestTraining(t *testing.T) {
	t.Parallel()
	exe := python(t)
	// As torchrun: one command that starts the ranks itself.
	launched := func(steps int, backend string) []string {
		return []string{"sh", "-c", fmt.Sprintf(`MASTER_ADDR=127.0.0.1 MASTER_PORT=$($0 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])') WORLD_SIZE=2 OMP_NUM_THREADS=1 USE_LIBUV=0
export MASTER_ADDR MASTER_PORT WORLD_SIZE OMP_NUM_THREADS USE_LIBUV
RANK=1 $0 -m gradlab.virtual testdata/train.py %d %s & RANK=0 $0 -m gradlab.virtual testdata/train.py %[1]d %[2]s; wait $!`, steps, backend), exe}
	}
	const keys = "network.bandwidth=8Mbps network.latency=0s transport=ideal"
	var record bytes.Buffer
	r, hash := run(t, virtual.Options{Keys: strings.Fields(keys), Command: launched(3, "nccl"), Stated: true, Record: &record})
	// 83,460 parameters: of each, a rank of two sends half of the sum and half of the parts.
	const params = 64*256 + 256 + 256*256 + 256 + 256*4 + 4
	if exchanged := params * 4 / 1e6; r.Steps != 3 || r.Step < 0.1+exchanged || r.Step > 0.1+exchanged+0.01 {
		t.Errorf("%d steps of %.4f s; want 3 of %.4f and what is little", r.Steps, r.Step, 0.1+exchanged)
	}
	if r.Computing < 0.3-1e-9 || r.Computing > 0.3+1e-9 {
		t.Errorf("%.6f s of computing; want 0.3", r.Computing)
	}
	gloo := exec.CommandContext(t.Context(), "sh", launched(3, "gloo")[1:]...)
	gloo.Args[2] = strings.ReplaceAll(gloo.Args[2], "-m gradlab.virtual ", "")
	if out, err := gloo.Output(); err != nil || strings.TrimSpace(string(out)) != hash {
		t.Errorf("with gloo: %s, %v; here %s", out, err, hash)
	}

	t.Run("torchrun", func(t *testing.T) {
		if out, err := exec.Command(exe, "-c", "import datetime, torch.distributed as d; d.TCPStore('127.0.0.1', 0, 1, True, datetime.timedelta(seconds=9))").CombinedOutput(); err != nil && bytes.Contains(out, []byte("without libuv support")) {
			t.Skip("this PyTorch is built without what its own torchrun wants (libuv)")
		}
		// torchrun itself. That of PyTorch 1.13 fails under Python 3.11 without -r and -t, and
		// with them it says whose line is whose.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		l.Close()
		real, printed := run(t, virtual.Options{Keys: strings.Fields(keys), Stated: true, Command: []string{exe, "-m", "torch.distributed.run", "-r", "1", "-t", "1",
			"--log_dir", t.TempDir(), "--nproc_per_node=2", "--master_port", port, "-m", "gradlab.virtual", "testdata/train.py", "3", "nccl"}})
		if got := strings.TrimPrefix(printed, "[default0]:"); got != hash || real.Seconds != r.Seconds {
			t.Errorf("torchrun: %s, %v s; want %s, %v s", got, real.Seconds, hash, r.Seconds)
		}
	})

	again, err := virtual.Replay(t.Context(), bytes.NewReader(record.Bytes()), strings.Fields(keys), 1)
	if err != nil || again.Seconds != r.Seconds || again.BytesSent != r.BytesSent {
		t.Errorf("played again: %+v, %v; the first time %+v", again, err, r)
	}
	slow, err := virtual.Replay(t.Context(), bytes.NewReader(record.Bytes()), []string{"network.bandwidth=4Mbps", "network.latency=0s", "transport=ideal"}, 1)
	if err != nil || slow.Step < 0.1+2*params*4/1e6 {
		t.Errorf("on half of the network: %+v, %v", slow, err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "network.bandwidth=8Mbps") || !strings.Contains(text.String(), "all_reduce") {
		t.Errorf("%v: %s", err, &text)
	}
}

// What goes wrong is told, and no process is left.
func TestFailures(t *testing.T) {
	t.Parallel()
	exe := python(t)
	begin := "import torch.distributed as dist, gradlab.virtual; dist.init_process_group('gradlab'); "
	for _, c := range []struct {
		name, script string
		ranks        int
		keys         []string
		want         string
	}{
		{"never begins", "pass", 2, nil, "not all ranks had called"},
		{"one rank fails", begin + "import os, time; dist.get_rank() == 1 and 1 / 0; time.sleep(1000)", 2, nil, "rank 1: "},
		{"one rank is killed", begin + "import os, time; dist.get_rank() == 1 and os.kill(os.getpid(), 9); time.sleep(1000)", 2, nil, "killed"},
		{"another key", "pass", 2, []string{"codec=raw"}, `key "codec" does not say`},
		{"a bad value", "pass", 2, []string{"network.bandwidth=fast"}, "network.bandwidth"},
		{"many values", "pass", 2, []string{"network.bandwidth=1Gbps,2Gbps"}, "2 networks at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var errs bytes.Buffer
			_, err := virtual.Run(t.Context(), virtual.Options{Command: []string{exe, "-c", c.script}, Ranks: c.ranks, Keys: c.keys, Speed: 1, Env: os.Environ(), Stdout: &errs, Stderr: &errs})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q\n%s", err, c.want, &errs)
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
		_, err := virtual.Run(ctx, virtual.Options{Command: []string{exe, "-c", begin + "import time; time.sleep(1000)"}, Ranks: 2, Speed: 1, Env: os.Environ()})
		if !errors.Is(err, why) {
			t.Errorf("%v; want %v", err, why)
		}
	})
	t.Run("no cluster", func(t *testing.T) {
		var o virtual.Options
		o.Command = []string{filepath.Join(t.TempDir(), "nothing")}
		o.Speed = 1
		if _, err := virtual.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is not started") {
			t.Errorf("of a command that is not there: %v", err)
		}
		o.Speed = 0
		if _, err := virtual.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--speed") {
			t.Errorf("of devices without speed: %v", err)
		}
	})
}
