package bench

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// detach puts a child in a process group of its own, so that Ctrl-C reaches us
// alone, and ends it when we die, even while it is paused.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pause and resume stop and continue a process. One that has ended needs
// neither.
func pause(p *os.Process)  { _ = p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// fifo makes a named pipe.
func fifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// cpuOf is the processor time that processes and their descendants have taken, in seconds.
func cpuOf(roots []int) (seconds float64) {
	folders, _ := os.ReadDir("/proc")
	parent, took := map[int]int{}, map[int]float64{}
	for _, f := range folders {
		pid, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // the name before may hold anything but this, or almost
		w := strings.Fields(rest)
		if len(w) < 13 {
			continue
		}
		user, _ := strconv.Atoi(w[11])
		system, _ := strconv.Atoi(w[12])
		parent[pid], _ = strconv.Atoi(w[1])
		took[pid] = float64(user+system) / ticks
	}
	mine := map[int]bool{}
	for _, pid := range roots {
		mine[pid] = true
	}
	for pid := range took {
		for p := pid; p > 1; p = parent[p] {
			if mine[p] {
				seconds += took[pid]
				break
			}
		}
	}
	return seconds
}

// ticks are those of a second in /proc, on every machine that Linux runs on with Go.
const ticks = 100
