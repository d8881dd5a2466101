package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// inNamespace is the environment variable by which the test program, begun again
// in a network namespace of its own, knows that it shall run gradlab there.
const inNamespace = "WIRE_TEST_IN_NAMESPACE"

// interfaceCount is what the kernel counted of a loopback interface. It counts a packet
// with its IP header, without one of the link, when it is sent (tx) and again when
// it arrives (rx).
type interfaceCount struct {
	Bytes, Packets, Sent, Dropped uint64
	Again                         uint64 // TCP segments that were sent again
	Exit                          int
	Out, Err                      string
}

func init() {
	if os.Getenv(inNamespace) == "" {
		return
	}
	c, err := runInNamespace(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	_ = json.NewEncoder(os.Stdout).Encode(c)
	os.Exit(0)
}

// runInNamespace brings the loopback interface up, runs a program and counts.
func runInNamespace(args []string) (c interfaceCount, err error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return c, err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return c, err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return c, fmt.Errorf("loopback up: %w", err)
	}
	before, err := countInterface()
	if err != nil {
		return c, err
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, inNamespace) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its code is told
	if c, err = countInterface(); err != nil {
		return c, err
	}
	c.Bytes, c.Packets, c.Sent, c.Again = c.Bytes-before.Bytes, c.Packets-before.Packets, c.Sent-before.Sent, c.Again-before.Again
	c.Exit, c.Out, c.Err = cmd.ProcessState.ExitCode(), out.String(), errs.String()
	return c, nil
}

// countInterface reads the counters of this network namespace.
func countInterface() (c interfaceCount, err error) {
	dev, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return c, err
	}
	for _, line := range strings.Split(string(dev), "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "lo:"); ok {
			f := strings.Fields(rest)
			number := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
			c.Bytes, c.Packets, c.Dropped, c.Sent = number(0), number(1), number(3), number(8)
		}
	}
	snmp, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		return c, err
	}
	var names []string
	for _, line := range strings.Split(string(snmp), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "Tcp:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, name := range names {
			if name == "RetransSegs" {
				c.Again, err = strconv.ParseUint(f[i], 10, 64)
			}
		}
	}
	return c, err
}

// namespaced runs gradlab where there is no traffic but its own.
func namespaced(t *testing.T, args ...string) (program.Result, interfaceCount) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{program.Gradlab}, args...)...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		if strings.Contains(errs.String(), "loopback up") {
			t.Skipf("no network namespace can be set up here: %s", errs.String())
		}
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var c interfaceCount
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if c.Exit != 0 {
		t.Fatalf("exit code %d\n%s\n%s", c.Exit, c.Out, c.Err)
	}
	p := &program.Program{T: t, Cmd: &exec.Cmd{Args: append([]string{program.Gradlab}, args...)}}
	fmt.Fprint(&p.Out, c.Out)
	return p.Result(), c
}

// wire_bytes against the kernel's own counters, in a network namespace in which
// nobody else talks. The interface carries what sockets do, and for each packet 20
// bytes of IP header, 20 of TCP header and up to 20 of TCP's options (the most is in
// the first packet of a connection; what follows a loss has more). A packet may
// carry nothing else, as an acknowledgement, and a segment sent again is counted
// again, 64 KB of it at most. So
//
//	interface − 60 a packet − 64 KB a segment sent again ≤ sockets ≤ interface − 40 a packet
func TestWireBytesAgainstTheInterface(t *testing.T) {
	t.Parallel()
	if patience.Raced() {
		t.Skip("starts gradlab, which is not built for the race detector")
	}
	for _, c := range patience.Few(5, []struct{ name, keys string }{
		{"sums", "mode=reduce codec=intsum(bits=8)"},
		{"server", "mode=server policy=bsp servers=2 placement=balanced codec=qsgd(bits=4)"},
		{"raw", "mode=reduce"},
		{"overlap", "mode=reduce overlap=buckets(bytes=50000)"},
		{"by gRPC", "mode=reduce links=grpc"},
		{"shared memory", "mode=reduce links=shm"},
		{"asynchronous", "mode=server policy=asp codec=feedback(topk(keep=0.01))"},
		{"gathers", "mode=gather codec=sign"},
		{"asynchronous in memory", "mode=server policy=asp links=auto"},
		{"differences", "mode=server policy=bsp down_codec=qsgd(bits=8)"},
		{"downpour", "mode=downpour policy=asp"},
		{"emulated", "mode=reduce emulate=true"},
		{"gossip", "mode=dpsgd"},
		{"gossip, asynchronous", "mode=adpsgd"},
		{"push-sum, asynchronous", "mode=agp"},
		{"local steps", "mode=localsgd"},
		{"easgd", "mode=easgd"},
		{"rudra", "mode=rudra policy=softsync"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			file := program.Recipe(t, "data: synthetic(dim=64,n=2048,test=256)\nmodel: mlp(hidden=[200])\nworkers: 3\nbatch: 8\nsteps: 30\nnet: grpc\n")
			args := append([]string{"run", file, "--json", "--quiet", "--out", t.TempDir(), "links=tcp"}, strings.Fields(c.keys)...)
			r, c := namespaced(t, args...)
			sockets, on := int64(r.Wire-r.Shared), int64(c.Bytes)
			most, least := on-40*int64(c.Packets), on-60*int64(c.Packets)-int64(c.Again)<<16
			t.Logf("sockets %d, interface %d in %d packets: %.1f bytes a packet beyond; overhead %d (%.3f %%); up %d, down %d",
				sockets, c.Bytes, c.Packets, float64(on-sockets)/float64(c.Packets), r.Overhead, 100*float64(r.Overhead)/float64(r.Wire), r.BytesUp, r.BytesDown)
			if c.Bytes != c.Sent || c.Dropped != 0 || c.Packets == 0 {
				t.Fatalf("the interface does not count what was assumed: %+v", c)
			}
			if sockets > most || sockets < least {
				t.Errorf("wire_bytes less shared_bytes is %d, the interface carried %d to %d beside headers", sockets, least, most)
			}
			billed := r.BytesUp
			if r.Servers {
				billed += r.BytesDown
			}
			if got := r.Wire - r.Report - r.Overhead; got < billed {
				t.Errorf("%d bytes of gradients and parameters crossed, %d are billed", got, billed)
			}
			if r.Overhead == 0 {
				t.Error("frames without headers")
			}
		})
	}
}
