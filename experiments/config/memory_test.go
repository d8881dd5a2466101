package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// F26: what cannot fit is refused with the figure, and not begun.
func TestF26TooLargeForTheMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		over []string
		has  int64
		want string // of the error; "": none
	}{
		{[]string{"model=mlp(hidden=[2000000000])"}, 64 << 30, "at least 1.2e+03 GB"},
		{[]string{"model=mlp(hidden=[9000000000000000])"}, 64 << 30, "GB of memory"},
		{[]string{"batch=1000000000"}, 64 << 30, "at least 256 GB"},
		{[]string{"batch=1000000000", "net=grpc", "links=grpc"}, 64 << 30, "at least 256 GB"},
		{[]string{"model=mlp(hidden=[200000])"}, 64 << 20, "and there are 0.0671 GB"},
		{[]string{"model=mlp(hidden=[100000])"}, 64 << 30, ""},
		{[]string{"model=mlp(hidden=[100000])", "mode=adpsgd", "graph=ring", "workers=16"}, 400 << 20, "GB of memory"},
		{[]string{"batch=32"}, 64 << 20, ""},
	} {
		run := mustRuns(t, "data: digits\nsteps: 2\neval_every: 0\n", c.over...)[0]
		_, err := run.Build(Places{Memory: c.has}, nil)
		var bad *Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v with %d MiB: %v, want %q", c.over, c.has>>20, err, c.want)
		}
	}
}

// F26: where nobody says how much memory there is, it is looked up, on systems that tell.
func TestF26MemoryOfThisMachine(t *testing.T) {
	t.Parallel()
	has := memoryIn(os.DirFS("/"))
	if has == 0 {
		t.Skip("this system does not say how much memory it has")
	}
	run := mustRuns(t, "data: digits\nsteps: 2\neval_every: 0\n", "model=mlp(hidden=[9000000000000000])")[0]
	_, err := run.Build(Places{}, nil)
	if err == nil || !strings.Contains(err.Error(), "there are "+gigabytes(float64(has))) {
		t.Errorf("%v, want the %s of this machine", err, gigabytes(float64(has)))
	}
}

// F26: what a control group grants counts, of either version, of those above too.
func TestF26ControlGroups(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemTotal:       24000000 kB\nMemFree:         1000 kB\n")
	for name, c := range map[string]struct {
		root fstest.MapFS
		want int64
	}{
		"nothing known": {fstest.MapFS{}, 0},
		"no group":      {fstest.MapFS{"proc/meminfo": machine}, 24000000 << 10},
		"ulimit -v":     {fstest.MapFS{"proc/meminfo": machine, "proc/self/limits": file("Limit                     Soft Limit           Hard Limit           Units     \nMax data size             unlimited            unlimited            bytes     \nMax address space         2147483648           unlimited            bytes     \n")}, 2 << 30},
		"ulimit -d":     {fstest.MapFS{"proc/meminfo": machine, "proc/self/limits": file("Max data size             1073741824           1073741824           bytes     \nMax address space         unlimited            unlimited            bytes     \n")}, 1 << 30},
		"no limits":     {fstest.MapFS{"proc/meminfo": machine, "proc/self/limits": file("Max data size             unlimited            unlimited            bytes     \nMax address space         unlimited            unlimited            bytes     \n")}, 24000000 << 10},
		"version 2":     {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/job/run\n"), "sys/fs/cgroup/job/run/memory.max": file("67108864\n")}, 64 << 20},
		"version 2, above": {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/job/run\n"),
			"sys/fs/cgroup/job/run/memory.max": file("max\n"), "sys/fs/cgroup/job/memory.max": file("1048576\n")}, 1 << 20},
		"version 1": {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("5:cpu,cpuacct:/x\n4:memory:/job\n"),
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": file("67108864\n")}, 64 << 20},
		"version 1, in a container": {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/docker/0123\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("67108864\n")}, 64 << 20},
		"version 1, no limit": {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/job\n"),
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": file("9223372036854771712\n")}, 24000000 << 10},
	} {
		if got := memoryIn(c.root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
