package elastic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// A run of workers that gossip as they come is stopped by Ctrl-C, and goes on with --resume
// to its last update: with all of its workers, and with the dead again.
func TestGossipOfProcessesResumes(t *testing.T) {
	t.Parallel()
	type stop struct {
		name string
		over []string
		dies bool // a worker, before the stop
	}
	for _, c := range patience.Few(1, []stop{
		{"adpsgd elastic", []string{"mode=adpsgd", "graph=complete", "elastic=on", "codec=fp16"}, true},
		{"adpsgd", []string{"mode=adpsgd", "graph=ring"}, false},
		{"agp", []string{"mode=agp", "graph=one_peer"}, true},
		{"agp elastic", []string{"mode=agp", "graph=ring", "elastic=on"}, false},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps := 4 * program.LongSteps
			p, out := program.Running(t, append(c.over, fmt.Sprint("steps=", steps))...)
			if c.dies {
				program.Hit(p, 1, syscall.SIGKILL)
				program.WaitFor(t, "word that the worker is gone", p, func() bool {
					return strings.Contains(p.Err.String(), "is gone") || strings.Contains(p.Err.String(), "worker 1: ")
				})
			}
			p.Signal(syscall.SIGINT)
			p.Expect(143)
			first := p.Result()
			if first.Status != "stopped" || first.Steps >= steps || first.Degraded != c.dies {
				t.Errorf("%+v\n%s", first, p.Says())
			}
			again := program.Start(t, nil, append(p.Cmd.Args[1:], "--resume")...)
			again.Expect(0)
			var r experiments.Result
			if err := json.Unmarshal([]byte(again.Out.String()), &r); err != nil {
				t.Fatalf("%v\n%s", err, again.Says())
			}
			if r.Steps != steps || r.Degraded != c.dies || r.Folder != first.Folder {
				t.Errorf("%d steps, lost %q\n%s", r.Steps, r.Lost, again.Says())
			}
			if n := len(r.Members); n > 0 && len(r.Members[n-1].Workers) != 3 {
				t.Errorf("memberships %+v", r.Members)
			}
			program.NoneLeft(t, out)
		})
	}
}
