package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// Machines are hosts joined by a switch, each a network namespace of its own.
type Machines struct {
	T     *testing.T
	Names []string
}

// subnets gives each test addresses of its own.
var subnets atomic.Int32

// New makes n of them, at 10.77.s.1, 10.77.s.2, …; without the right to make
// namespaces the test is skipped.
func New(t *testing.T, n int) (m *Machines, address func(host int) string) {
	t.Helper()
	m = &Machines{T: t}
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
		m.Names = append(m.Names, name)
		port := fmt.Sprint("p", i)
		ip(false, "-n", hub, "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		ip(true, "-n", hub, "link", "set", port, "master", "switch", "up")
		ip(true, "-n", name, "addr", "add", address(i)+"/24", "dev", "eth0")
		ip(true, "-n", name, "link", "set", "eth0", "up")
		ip(true, "-n", name, "link", "set", "lo", "up")
	}
	return m, address
}

// Start begins gradlab on a host.
func (m *Machines) Start(host int, env []string, args ...string) *program.Program {
	m.T.Helper()
	return program.StartBy(m.T, []string{"ip", "netns", "exec", m.Names[host]}, env, args...)
}

// Named gives a host its own view of names, lines of /etc/hosts.
func (m *Machines) Named(host int, lines string) {
	m.T.Helper()
	dir := filepath.Join("/etc/netns", m.Names[host])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.T.Skipf("no view of names can be made here: %v", err)
	}
	m.T.Cleanup(func() { os.RemoveAll(dir); _ = os.Remove("/etc/netns") })
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte(lines), 0o644); err != nil {
		m.T.Fatal(err)
	}
}
