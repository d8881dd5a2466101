package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

func TestBenchCollectives(t *testing.T) {
	t.Parallel()
	args := strings.Fields("bench collectives --section allreduce,step --procs 2 --sizes 4KB --links grpc --codecs sign --rounds 1 --seconds 0.01")
	p := program.Finish(t, 0, args...)
	program.Plain(t, p)
	if s := p.Out.String(); !strings.Contains(s, "bus GB/s") || !strings.Contains(s, "doubling") || !strings.Contains(s, "sign") {
		t.Error(p.Says())
	}
	p = program.Finish(t, 0, append(args, "--json")...)
	var r struct {
		Command    []string
		Machine    struct{ Go string }
		AllReduces []struct {
			Procs, Bytes   int
			Name, Topology string
			Microseconds   struct{ Median float64 }
		} `json:"all_reduces"`
		Steps []struct {
			Name, Over   string
			Milliseconds struct{ Median float64 }
		}
	}
	if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, p.Says())
	}
	if strings.Join(r.Command[:3], " ") != "gradlab bench collectives" || r.Machine.Go == "" || len(r.AllReduces) != 1 || len(r.Steps) != 1 {
		t.Fatal(p.Says())
	}
	if a := r.AllReduces[0]; a.Procs != 2 || a.Bytes != 4096 || a.Name != "grpc" || !(a.Microseconds.Median > 0) {
		t.Error(p.Says())
	}
	if s := r.Steps[0]; s.Name != "sign" || s.Over != "grpc" || !(s.Milliseconds.Median > 0) {
		t.Error(p.Says())
	}
}
