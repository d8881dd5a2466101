// Package program starts gradlab as its users do, for tests: the program is built once,
// started with arguments and an environment, waited for with a bound, and read.
//
// Tests that start it lie in several packages (experiments/cli, and those
// below it): go test gives each ten minutes, which on a busy machine is little.
package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

// Gradlab is the path of the program, once Main has built it.
var Gradlab string

// Main builds the program, runs the tests of a package, and is its exit code:
//
//	func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
func Main(m interface{ Run() int }) int {
	os.Setenv("GRADLAB_CONFIG", "") // settings of whoever runs the tests are not theirs
	patience.Beside(6)              // they wait for programs that they start
	if patience.Raced() {           // nothing is started
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "gradlab-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	Gradlab = filepath.Join(dir, "gradlab")
	// go run keeps what it links in the build cache, where go build would link it again for
	// every package of tests.
	build := exec.Command("go", "run", "-ldflags=-s -w", "-exec", "cp", "github.com/gradlab/gradlab", Gradlab)
	if runtime.GOOS == "windows" {
		build = exec.Command("go", "build", "-ldflags=-s -w", "-o", Gradlab, "github.com/gradlab/gradlab")
	}
	build.Stderr = os.Stderr
	if build.Run() != nil {
		return 1
	}
	return m.Run()
}

// Enough bounds every wait. Nothing here should take nearly as long.
var Enough = patience.Stretch(2 * time.Minute)

// Program is a running gradlab, or what a command line started.
type Program struct {
	T        *testing.T
	Cmd      *exec.Cmd
	Out, Err Output        // what it has printed so far
	Done     chan struct{} // closed once it has ended
}

// Output can be read while it is written.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Start begins gradlab with arguments; env is added to the environment.
func Start(t *testing.T, env []string, args ...string) *Program {
	t.Helper()
	return StartBy(t, nil, env, args...)
}

// StartBy begins gradlab by a command that it takes the place of.
func StartBy(t *testing.T, by, env []string, args ...string) *Program {
	t.Helper()
	return StartLine(t, "", env, append(append(slices.Clone(by), Gradlab), args...)...)
}

// StartLine begins a command line in a folder; "": in this one.
func StartLine(t *testing.T, dir string, env []string, line ...string) *Program {
	t.Helper()
	if patience.Raced() { // nothing would be found that way, and go test has these tests
		t.Skip("starts gradlab, which is not built for the race detector")
	}
	p := &Program{T: t, Cmd: exec.Command(line[0], line[1:]...), Done: make(chan struct{})}
	p.Cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GRADLAB_") && !strings.HasPrefix(v, "SLURM_") {
			p.Cmd.Env = append(p.Cmd.Env, v)
		}
	}
	p.Cmd.Env = append(p.Cmd.Env, env...)
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Out, &p.Err
	p.Cmd.WaitDelay = 10 * time.Second
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.Cmd.Wait(); close(p.Done) }()
	t.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.Done })
	return p
}

// Signal sends a signal to a program that has not ended.
func (p *Program) Signal(s syscall.Signal) {
	select {
	case <-p.Done:
	default:
		_ = p.Cmd.Process.Signal(s)
	}
}

// Wait returns the exit code; a program that does not end within the limit is
// an error.
func (p *Program) Wait(limit time.Duration) int {
	p.T.Helper()
	return p.wait(limit, func() bool { return false })
}

// wait is Wait, but the limit begins anew as long as there is more.
func (p *Program) wait(limit time.Duration, more func() bool) int {
	p.T.Helper()
	for {
		select {
		case <-p.Done:
			return p.Cmd.ProcessState.ExitCode()
		case <-time.After(limit):
		}
		if !more() {
			break
		}
	}
	p.Signal(syscall.SIGQUIT)
	<-p.Done
	p.T.Fatalf("still running after %v\n%s", limit, p.Says())
	return 0
}

// Says is the command line with all that was printed.
func (p *Program) Says() string {
	return fmt.Sprintf("%v\nstdout:\n%s\nstderr:\n%s", p.Cmd.Args[1:], p.Out.String(), p.Err.String())
}

// Expect waits for an exit code as long as the program goes on printing: how long a run is
// that gets on says nothing on a busy machine, and go test bounds that.
func (p *Program) Expect(code int) {
	p.T.Helper()
	seen := 0
	got := p.wait(Enough, func() bool {
		before := seen
		seen = len(p.Out.String()) + len(p.Err.String())
		return seen > before
	})
	if got != code {
		p.T.Fatalf("exit code %d, want %d\n%s", got, code, p.Says())
	}
}

// Finish runs gradlab to its end.
func Finish(t *testing.T, code int, args ...string) *Program {
	t.Helper()
	p := Start(t, nil, args...)
	p.Expect(code)
	return p
}

// Result is what the tests read of a result line.
type Result struct {
	Folder    string         `json:"folder"`
	Status    string         `json:"status"`
	Steps     int            `json:"steps"`
	SHA256    string         `json:"params_sha256"`
	BytesUp   uint64         `json:"bytes_up"`
	BytesDown uint64         `json:"bytes_down"`
	Wire      uint64         `json:"wire_bytes"`
	Shared    uint64         `json:"shared_bytes"`
	Report    uint64         `json:"report_bytes"`
	Overhead  uint64         `json:"overhead_bytes"`
	Servers   bool           `json:"servers"`
	Config    map[string]any `json:"config"`
	Virtual   float64        `json:"virtual_seconds"`
	Degraded  bool           `json:"degraded"`
	Lost      []string       `json:"lost"`
	Ledger    struct {
		Sent, Applied, Rejected, Lost, Torn uint64
	} `json:"ledger"`
}

// LostOne says whether all that was lost is worker 1, and perhaps parts of its pushes.
func (r *Result) LostOne() bool {
	return r.Degraded && len(r.Lost) == 1+min(1, int(r.Ledger.Torn)) && strings.Contains(r.Lost[0], "worker 1")
}

// Results reads the JSON lines at the end of what a run printed.
func (p *Program) Results() []Result {
	p.T.Helper()
	var out []Result
	for _, line := range strings.Split(strings.TrimSpace(p.Out.String()), "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			p.T.Fatalf("%v\n%s", err, p.Says())
		}
		out = append(out, r)
	}
	return out
}

// Result is the only line of Results.
func (p *Program) Result() Result {
	p.T.Helper()
	rs := p.Results()
	if len(rs) != 1 {
		p.T.Fatalf("%d results, want 1\n%s", len(rs), p.Says())
	}
	return rs[0]
}

// Recipe writes a recipe file and returns its path.
func Recipe(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// WaitFor polls until ok, or fails the test.
func WaitFor(t *testing.T, what string, p *Program, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Enough); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within %v\n%s", what, Enough, p.Says())
		}
		select {
		case <-p.Done:
			if !ok() {
				t.Fatalf("ended before %s\n%s", what, p.Says())
			}
			return
		default:
		}
	}
}

// Evaluated waits until a run below out has made n evaluations, and returns its
// folder.
func Evaluated(t *testing.T, p *Program, out string, n int) (folder string) {
	t.Helper()
	WaitFor(t, fmt.Sprintf("%d evaluations", n), p, func() bool {
		made, in := Evaluations(out)
		folder = in
		return made >= n
	})
	return folder
}

// Evaluations are how many the run below out that made most has made, and its folder.
func Evaluations(out string) (most int, folder string) {
	files, _ := filepath.Glob(filepath.Join(out, "*", "*", "metrics.jsonl"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if n := strings.Count(string(b), `"kind":"eval"`); err == nil && n > most {
			most, folder = n, filepath.Dir(f)
		}
	}
	return most, folder
}
