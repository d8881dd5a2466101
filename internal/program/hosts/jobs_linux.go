package hosts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/program"
)

// Called gives the hosts names: host i is prefix and i, and each knows all of them.
func (m *Machines) Called(prefix string, address func(int) string) (on func(host int) []string) {
	m.T.Helper()
	var lines strings.Builder
	lines.WriteString("127.0.0.1 localhost\n")
	for i := range m.Names {
		fmt.Fprintf(&lines, "%s %s%d\n", address(i), prefix, i)
	}
	file := filepath.Join(m.T.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
		m.T.Fatal(err)
	}
	// Processes end with the first of their view, so that nothing is left behind.
	on = func(host int) []string {
		return []string{"nsenter", "--net=/run/netns/" + m.Names[host],
			"unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-c", fmt.Sprintf(`hostname %s%d && mount --bind %s /etc/hosts && exec "$@"`, prefix, host, file), "sh"}
	}
	line := append(on(0), "true")
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		m.T.Skipf("no hosts with names of their own can be made here: %v %s", err, out)
	}
	return on
}

// Needs skips a test where a program is not there.
func Needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v", err)
		}
	}
}

// Begin starts a command line in a folder, where gradlab is what is tested.
func Begin(t *testing.T, dir string, env []string, line ...string) *program.Program {
	t.Helper()
	path := "PATH=" + filepath.Dir(program.Gradlab) + ":" + os.Getenv("PATH")
	return program.StartLine(t, dir, append([]string{"GRADLAB_CONFIG=", path}, env...), line...)
}

// Ends waits for the exit code. more is told where it is another.
func Ends(p *program.Program, code int, more func() string) {
	p.T.Helper()
	if got := p.Wait(program.Enough); got != code {
		p.T.Fatalf("exit code %d, want %d\n%s\n%s", got, code, p.Says(), more())
	}
}

func Nothing() string { return "" }

// Until waits for a condition.
func Until(t *testing.T, what string, says func() string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(program.Enough); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s\n%s", what, says())
		}
	}
}

// Logs are all files of a folder that a pattern names.
func Logs(dir, pattern string) string {
	files, _ := filepath.Glob(filepath.Join(dir, pattern))
	var b strings.Builder
	for _, f := range files {
		text, _ := os.ReadFile(f)
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(f), text)
	}
	return b.String()
}

// JobFolder holds examples/launch, and what its jobs write.
func JobFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "examples", "launch"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Lasting are the keys of a run that goes on for a second or two, so that something can
// happen to it. Its steps are large ones, and few: each has the processes wait for one
// another, which takes long on a busy machine.
var Lasting = []string{"model=mlp(hidden=[64])", "batch=512", "steps=1500", "eval_every=150", "checkpoint_every=50"}

// expectedLasting is what those runs come to, found once.
var (
	lastingHeld     sync.Mutex
	expectedLasting program.Result
)

func LastingResult(t *testing.T) program.Result {
	t.Helper()
	lastingHeld.Lock()
	defer lastingHeld.Unlock()
	if expectedLasting.SHA256 == "" {
		expectedLasting = Expected(t, Lasting...)
	}
	return expectedLasting
}

// Expected is the result of the recipe of the jobs, with keys, without any scheduler.
func Expected(t *testing.T, keys ...string) program.Result {
	t.Helper()
	file := filepath.Join("..", "..", "..", "examples", "launch", "digits.yaml")
	return program.Finish(t, 0, append([]string{"run", file, "--net", "local", "--json", "--quiet", "--out", t.TempDir()}, keys...)...).Result()
}

// Came compares the run below a folder with what it should have come to.
func Came(t *testing.T, dir string, want program.Result, says func() string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "result.json"))
	if len(files) != 1 {
		t.Fatalf("%v\n%s", files, says())
	}
	var r program.Result
	program.ReadJSON(t, files[0], &r)
	if r.SHA256 != want.SHA256 || r.Status != "done" || r.Wire == 0 {
		t.Errorf("%+v, want the parameters of %+v\n%s", r, want, says())
	}
}

// processOf is a process of gradlab with a command of which more holds; 0: there is none.
func processOf(command string, more func(pid int, words []string) bool) int {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range slices.Backward(processes) {
		line, _ := os.ReadFile(p)
		words := strings.Split(string(line), "\x00")
		var pid int
		if _, err := fmt.Sscanf(p, "/proc/%d/", &pid); err == nil && filepath.Base(words[0]) == "gradlab" && slices.Contains(words, command) && more(pid, words) {
			return pid
		}
	}
	return 0
}

// send sends a signal to a process that was found.
func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if pid == 0 {
		t.Fatal("there is no such process")
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// Kill ends one rank that was started for a folder's data.
func Kill(t *testing.T, dir string) {
	t.Helper()
	send(t, processOf("join", func(_ int, words []string) bool { return slices.Contains(words, dir) }), syscall.SIGKILL)
}

// Stop sends SIGTERM to gradlab launch below a program.
func Stop(t *testing.T, r *program.Program) {
	t.Helper()
	send(t, processOf("launch", func(pid int, _ []string) bool { return below(pid, r.Cmd.Process.Pid) }), syscall.SIGTERM)
}

// below says whether a process is a descendant of another.
func below(pid, of int) bool {
	for pid > 1 {
		if pid == of {
			return true
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if _, err := fmt.Sscan(fields[1], &pid); err != nil {
			return false
		}
	}
	return false
}
