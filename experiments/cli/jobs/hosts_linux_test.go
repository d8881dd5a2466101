package jobs_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// machines are hosts joined by a switch, each a network namespace of its own.
type machines struct {
	t     *testing.T
	names []string
}

// subnets gives each test addresses of its own.
var subnets atomic.Int32

// hosts makes n of them, at 10.77.s.1, 10.77.s.2, …; without the right to make
// namespaces the test is skipped.
func hosts(t *testing.T, n int) (m *machines, address func(host int) string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	m = &machines{t: t}
	ip := func(must bool, args ...string) {
		out, err := exec.Command("ip", args...).CombinedOutput()
		switch {
		case err == nil:
		case must:
			t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
		default:
			t.Skipf("no network namespaces can be made here: ip %s: %v %s", strings.Join(args, " "), err, out)
		}
	}
	net := subnets.Add(1)
	id := fmt.Sprintf("gl%d-%d", os.Getpid(), net)
	add := func(name string) {
		ip(false, "netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	hub := id + "-s"
	add(hub)
	ip(false, "-n", hub, "link", "add", "name", "switch", "type", "bridge")
	ip(true, "-n", hub, "link", "set", "switch", "up")
	address = func(host int) string { return fmt.Sprintf("10.77.%d.%d", net, host+1) }
	for i := range n {
		name := fmt.Sprintf("%s-%d", id, i)
		add(name)
		m.names = append(m.names, name)
		port := fmt.Sprint("p", i)
		ip(false, "-n", hub, "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		ip(true, "-n", hub, "link", "set", port, "master", "switch", "up")
		ip(true, "-n", name, "addr", "add", address(i)+"/24", "dev", "eth0")
		ip(true, "-n", name, "link", "set", "eth0", "up")
		ip(true, "-n", name, "link", "set", "lo", "up")
	}
	return m, address
}

// start begins gradlab on a host.
func (m *machines) start(host int, env []string, args ...string) *program.Program {
	m.t.Helper()
	return program.StartBy(m.t, []string{"ip", "netns", "exec", m.names[host]}, env, args...)
}

// named gives a host its own view of names, lines of /etc/hosts.
func (m *machines) named(host int, lines string) {
	m.t.Helper()
	dir := filepath.Join("/etc/netns", m.names[host])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Skipf("no view of names can be made here: %v", err)
	}
	m.t.Cleanup(func() { os.RemoveAll(dir); _ = os.Remove("/etc/netns") })
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte(lines), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

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
	m, at := hosts(t, 3)
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
			m.t = t
			m.meet(t, c.keys, c.on, c.env, c.args)
		})
	}
}

// meet runs a rank on each of these hosts, and wants the parameters of net local.
func (m *machines) meet(t *testing.T, keys []string, on []int, env, args func(rank int) []string) {
	t.Helper()
	file, out := program.Recipe(t, program.Quick), t.TempDir()
	var ps []*program.Program
	for rank := range on {
		a := append([]string{"join", file, "links=grpc", "--out", out}, keys...)
		e := []string{program.Secret}
		if env != nil {
			e = env(rank)
		}
		if args != nil {
			a = append(a, args(rank)...)
		}
		ps = append(ps, m.start(on[rank], e, a...))
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
	m, at := hosts(t, 2)
	m.named(0, "127.0.0.1 localhost\n127.0.1.1 lead\n")
	m.named(1, "127.0.0.1 localhost\n"+at(0)+" lead\n")
	m.meet(t, []string{"mode=reduce", "workers=3"}, []int{0, 0, 1}, func(rank int) []string {
		return []string{fmt.Sprint("RANK=", rank), "WORLD_SIZE=3", "MASTER_ADDR=lead", "MASTER_PORT=29500", program.Secret}
	}, nil)
}

// A coordinator's name that is not known yet, as in a job whose pods start at
// different times, is asked for again.
func TestNameNotKnownYet(t *testing.T) {
	t.Parallel()
	m, at := hosts(t, 2)
	m.named(0, "127.0.0.1 localhost\n")
	m.named(1, "127.0.0.1 localhost\n")
	file, out := program.Recipe(t, program.Quick), t.TempDir()
	start := func(rank int) *program.Program {
		return m.start(rank, []string{fmt.Sprint("JOB_COMPLETION_INDEX=", rank), "MASTER_ADDR=job-0.svc.invalid", "MASTER_PORT=29500", program.Secret},
			"join", file, "links=grpc", "mode=reduce", "workers=2", "--out", out, "--timeout", "2m")
	}
	other, lead := start(1), start(0)
	program.WaitFor(t, "a folder", lead, func() bool {
		files, _ := filepath.Glob(filepath.Join(out, "*", "*", "status.json"))
		return len(files) == 1
	})
	m.named(1, "127.0.0.1 localhost\n"+at(0)+" job-0.svc.invalid\n")
	lead.Expect(0)
	other.Expect(0)
}
