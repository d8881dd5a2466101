package cli_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

func TestBenchTrain(t *testing.T) {
	t.Parallel()
	p := program.Finish(t, 0, "bench", "train", "--model", "mlp", "--batch", "8", "--threads", "1", "--seconds", "0.05")
	program.Plain(t, p)
	if s := p.Out.String(); !strings.Contains(s, "mlp@28") || !strings.Contains(s, "GFLOP/s") {
		t.Error(p.Says())
	}
	p = program.Finish(t, 0, "bench", "train", "--model", "mlp", "--batch", "8", "--threads", "1", "--seconds", "0.05", "--json")
	var r struct {
		Command []string
		Machine struct {
			Go    string
			Cores int
		}
		Rows []struct {
			Name    string
			Batch   int
			Threads int
		}
	}
	if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, p.Says())
	}
	if len(r.Rows) != 1 || r.Rows[0].Name != "mlp@28" || r.Rows[0].Batch != 8 || r.Machine.Go == "" || r.Machine.Cores < 1 ||
		strings.Join(r.Command[:3], " ") != "gradlab bench train" {
		t.Error(p.Says())
	}
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"bench nothing":                                `nothing called "nothing" to bench`,
		"bench train mlp":                              "takes no arguments",
		"bench train --model alexnet":                  `no case "alexnet"; there are mnistcnn@28`,
		"bench train --batch -1":                       "batch is -1",
		"bench train --threads 0":                      "threads is 0",
		"bench train --threads x":                      "--threads",
		"bench train --seconds 0":                      "seconds is 0",
		"bench train --peer jax":                       `no peer "jax"; there is torch`,
		"bench collectives 4KB":                        "takes no arguments",
		"bench collectives --procs 1":                  "procs is 1",
		"bench collectives --sizes 4GB":                `a size of "4GB"`,
		"bench collectives --sizes 6":                  "a multiple of 4",
		"bench collectives --links auto":               `links is "auto"`,
		"bench collectives --peer nccl":                `no peer "nccl"; there are gloo and ompi`,
		"bench collectives --section broadcast":        `no section "broadcast"`,
		"bench collectives --peer gloo --python /no/p": "apt-get install python3-torch",
		"bench train --peer torch --python /no/python": "apt-get install python3-torch",
	} {
		if p := program.Finish(t, 2, strings.Fields(args)...); !strings.Contains(p.Err.String(), want) {
			t.Errorf("%s: no %q\n%s", args, want, p.Says())
		}
	}
	if p := program.Finish(t, 0, "bench"); !strings.Contains(p.Out.String(), "How to read it") {
		t.Error(p.Says())
	}
}

// Ctrl-C ends a benchmark with the rows that are complete.
func TestBenchStops(t *testing.T) {
	t.Parallel()
	p := program.Start(t, nil, "bench", "train", "--model", "mlp", "--threads", "1", "--seconds", "600", "--json")
	program.WaitFor(t, "a beginning", p, func() bool { return strings.Contains(p.Err.String(), "measuring") })
	p.Signal(syscall.SIGINT)
	p.Expect(143)
	if !strings.Contains(p.Err.String(), "stopped before the end") || !json.Valid([]byte(p.Out.String())) {
		t.Error(p.Says())
	}
}
