package jobs_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/internal/program/hosts"
)

// outcome is the result of a run below a folder.
func outcome(t *testing.T, out string, lead *program.Program) (r program.Result) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(out, "*", "*", "result.json"))
	if len(files) != 1 {
		t.Fatalf("%v\n%s", files, lead.Says())
	}
	program.ReadJSON(t, files[0], &r)
	return r
}

// Ranks of several hosts meet with the same flags on all, or with none but what a
// launcher says, and come to the bits of any other net.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	m, at := hosts.New(t, 3)
	coordinator := net.JoinHostPort(at(0), "29500")
	launched := func(rank, world int) []string {
		return []string{fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", world), "MASTER_ADDR=" + at(0), "MASTER_PORT=29500", program.Secret}
	}
	for _, c := range []struct {
		name string
		keys []string
		on   []int // hosts of the ranks
		env  func(rank int) []string
		args func(rank int) []string
	}{
		{"as the page says", []string{"mode=reduce", "workers=2"}, []int{0, 1}, nil,
			func(rank int) []string {
				return []string{"--rank", fmt.Sprint(rank), "--coordinator", coordinator, "--listen", at(rank) + ":0"}
			}},
		{"uniform flags", []string{"mode=reduce", "workers=3"}, []int{0, 1, 2}, func(rank int) []string { return launched(rank, 3) },
			func(int) []string { return []string{"--listen", ":0"} }},
		{"no flags, three hosts", []string{"mode=server", "policy=bsp", "workers=2", "servers=1"}, []int{0, 1, 2}, func(rank int) []string { return launched(rank, 3) }, nil},
		{"no flags, two ranks a host", []string{"mode=reduce", "workers=4"}, []int{0, 0, 1, 1}, func(rank int) []string { return launched(rank, 4) }, nil},
		{"an address to call back at", []string{"mode=reduce", "workers=2"}, []int{0, 1}, func(rank int) []string { return launched(rank, 2) },
			func(rank int) []string { return []string{"--advertise", at(rank)} }},
		{"plain text", []string{"mode=reduce", "workers=2"}, []int{0, 1}, func(rank int) []string { return launched(rank, 2) },
			func(int) []string { return []string{"--insecure-listen-i-accept-plaintext"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.T = t
			meet(t, m, c.keys, c.on, c.env, c.args)
		})
	}
}

// meet runs a rank on each of these hosts, and wants the parameters of net local.
func meet(t *testing.T, m *hosts.Machines, keys []string, on []int, env, args func(rank int) []string) {
	t.Helper()
	file, out := program.Recipe(t, program.Quick), t.TempDir()
	var ps []*program.Program
	for rank := range on {
		a := append([]string{"join", file, "links=tcp", "--out", out}, keys...)
		e := []string{program.Secret}
		if env != nil {
			e = env(rank)
		}
		if args != nil {
			a = append(a, args(rank)...)
		}
		ps = append(ps, m.Start(on[rank], e, a...))
	}
	for _, p := range ps {
		p.Expect(0)
	}
	r := outcome(t, out, ps[0])
	want := program.Finish(t, 0, append([]string{"run", file, "--net", "local", "--json", "--quiet", "--out", t.TempDir()}, keys...)...).Result()
	if r.SHA256 != want.SHA256 || r.Status != "done" || r.Wire == 0 {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
}

// A host's own name may lead to loopback there, and to its address elsewhere. Ranks
// beside the coordinator then reach it by loopback, and are reached by the others.
func TestNameOfLoopback(t *testing.T) {
	t.Parallel()
	m, at := hosts.New(t, 2)
	m.Named(0, "127.0.0.1 localhost\n127.0.1.1 lead\n")
	m.Named(1, "127.0.0.1 localhost\n"+at(0)+" lead\n")
	meet(t, m, []string{"mode=reduce", "workers=3"}, []int{0, 0, 1}, func(rank int) []string {
		return []string{fmt.Sprint("RANK=", rank), "WORLD_SIZE=3", "MASTER_ADDR=lead", "MASTER_PORT=29500", program.Secret}
	}, nil)
}

// A coordinator's name that is not known yet, as in a job whose pods start at
// different times, is asked for again.
func TestNameNotKnownYet(t *testing.T) {
	t.Parallel()
	m, at := hosts.New(t, 2)
	m.Named(0, "127.0.0.1 localhost\n")
	m.Named(1, "127.0.0.1 localhost\n")
	file, out := program.Recipe(t, program.Quick), t.TempDir()
	start := func(rank int) *program.Program {
		return m.Start(rank, []string{fmt.Sprint("JOB_COMPLETION_INDEX=", rank), "MASTER_ADDR=job-0.svc.invalid", "MASTER_PORT=29500", program.Secret},
			"join", file, "links=tcp", "mode=reduce", "workers=2", "--out", out, "--timeout", "2m")
	}
	other, lead := start(1), start(0)
	program.WaitFor(t, "a folder", lead, func() bool {
		files, _ := filepath.Glob(filepath.Join(out, "*", "*", "status.json"))
		return len(files) == 1
	})
	m.Named(1, "127.0.0.1 localhost\n"+at(0)+" job-0.svc.invalid\n")
	lead.Expect(0)
	other.Expect(0)
}
