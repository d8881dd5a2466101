package program

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

// LongSteps are the steps of Long, LongEvery those between its evaluations.
const (
	LongSteps = 800
	LongEvery = 20
)

// Long is a recipe that can be hit in the middle. Its steps are large ones, and few: each
// has the processes wait for one another, which takes long on a busy machine.
const Long = `
data: synthetic(dim=32,n=2048,test=256)
model: mlp(hidden=[64])
optimizer: adam
schedule: cosine(lr=0.003)
codec: feedback(topk(keep=0.1))
workers: 3
batch: 128
steps: 800
eval_every: 20
`

// Endless is a recipe whose first update is one micro-batch, and whose second one takes hours
// of such.
const Endless = `
data: synthetic(dim=32,n=256,test=2048)
model: mlp(hidden=[256,256])
workers: 2
batch: 128
steps: 4
eval_every: 1
batch_schedule: growth(factor=1000000,at=[1])
`

// Decided is how soon a fault must have ended a run that cannot go on.
var Decided = patience.Stretch(30 * time.Second)

// processes lists command lines by process.
func processes() map[int][]string {
	out := map[int][]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		if b, err := os.ReadFile(filepath.Join(d, "cmdline")); err == nil && len(b) > 0 {
			out[pid] = strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		}
	}
	return out
}

var parent = regexp.MustCompile(`(?m)^PPid:\s*(\d+)$`)

// Ranks finds the processes that a launcher has started.
func Ranks(p *Program) map[int]int {
	out := map[int]int{}
	for pid, args := range processes() {
		if len(args) < 2 || args[1] != "join" {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if m := parent.FindSubmatch(b); err != nil || m == nil || string(m[1]) != fmt.Sprint(p.Cmd.Process.Pid) {
			continue
		}
		for i, a := range args {
			if a == "--rank" && i+1 < len(args) {
				if r, err := strconv.Atoi(args[i+1]); err == nil {
					out[r] = pid
				}
			}
		}
	}
	return out
}

// NoneLeft wants no process of a run below out, stopped ones included.
func NoneLeft(t *testing.T, out string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(Decided); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = nil
		for pid, args := range processes() {
			if line := strings.Join(args, " "); strings.Contains(line, out) {
				left = append(left, fmt.Sprint(pid, " ", line))
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %s", strings.Join(left, "\n"))
}

// Running starts the long run in processes and waits until it is under way.
func Running(t *testing.T, overrides ...string) (p *Program, out string) {
	t.Helper()
	out = t.TempDir()
	args := append([]string{"run", Recipe(t, Long), "--net", "grpc", "--json", "--no-plot", "--out", out, "codec=raw"}, overrides...)
	p = Start(t, nil, args...)
	Evaluated(t, p, out, 3)
	return p, out
}

// Hit sends a signal to a rank.
func Hit(p *Program, rank int, s syscall.Signal) {
	p.T.Helper()
	pid, ok := Ranks(p)[rank]
	if !ok {
		p.T.Fatalf("no process is rank %d\n%s", rank, p.Says())
	}
	if err := syscall.Kill(pid, s); err != nil {
		p.T.Fatal(err)
	}
}
