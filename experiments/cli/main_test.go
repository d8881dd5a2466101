package cli_test

import (
	"bytes"
	"encoding/json"
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

	"github.com/gradlab/gradlab/internal/patience"
)

// gradlab is the program, built once.
var gradlab string

func TestMain(m *testing.M) {
	os.Setenv("GRADLAB_CONFIG", "") // settings of whoever runs the tests are not theirs
	patience.Beside(6)              // they wait for programs that they start
	if patience.Raced() {           // nothing is started
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "gradlab-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	gradlab = filepath.Join(dir, "gradlab")
	build := exec.Command("go", "build", "-o", gradlab, "github.com/gradlab/gradlab")
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// enough bounds every wait. Nothing here should take nearly as long.
var enough = patience.Stretch(2 * time.Minute)

// program is a running gradlab.
type program struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err output
	done     chan struct{}
}

// output can be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start begins gradlab with arguments; env is added to the environment.
func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return startBy(t, nil, env, args...)
}

// startBy begins gradlab by a command that it takes the place of.
func startBy(t *testing.T, by, env []string, args ...string) *program {
	t.Helper()
	return startLine(t, "", env, append(append(slices.Clone(by), gradlab), args...)...)
}

// startLine begins a command line in a folder; "": in this one.
func startLine(t *testing.T, dir string, env []string, line ...string) *program {
	t.Helper()
	if patience.Raced() { // nothing would be found that way, and go test has these tests
		t.Skip("starts gradlab, which is not built for the race detector")
	}
	p := &program{t: t, cmd: exec.Command(line[0], line[1:]...), done: make(chan struct{})}
	p.cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GRADLAB_") && !strings.HasPrefix(v, "SLURM_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() { p.signal(syscall.SIGKILL); <-p.done })
	return p
}

func (p *program) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(s)
	}
}

// wait returns the exit code; a program that does not end within the limit is
// an error.
func (p *program) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.signal(syscall.SIGQUIT)
		<-p.done
		p.t.Fatalf("still running after %v\n%s", limit, p.says())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) says() string {
	return fmt.Sprintf("%v\nstdout:\n%s\nstderr:\n%s", p.cmd.Args[1:], p.out.String(), p.err.String())
}

// expect waits for an exit code.
func (p *program) expect(code int) {
	p.t.Helper()
	if got := p.wait(enough); got != code {
		p.t.Fatalf("exit code %d, want %d\n%s", got, code, p.says())
	}
}

// finish runs gradlab to its end.
func finish(t *testing.T, code int, args ...string) *program {
	t.Helper()
	p := start(t, nil, args...)
	p.expect(code)
	return p
}

// result is what the tests read of a result line.
type result struct {
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

// lostOne says whether all that was lost is worker 1, and perhaps parts of its pushes.
func (r *result) lostOne() bool {
	return r.Degraded && len(r.Lost) == 1+min(1, int(r.Ledger.Torn)) && strings.Contains(r.Lost[0], "worker 1")
}

// results reads the JSON lines at the end of what a run printed.
func (p *program) results() []result {
	p.t.Helper()
	var out []result
	for _, line := range strings.Split(strings.TrimSpace(p.out.String()), "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			p.t.Fatalf("%v\n%s", err, p.says())
		}
		out = append(out, r)
	}
	return out
}

func (p *program) result() result {
	p.t.Helper()
	rs := p.results()
	if len(rs) != 1 {
		p.t.Fatalf("%d results, want 1\n%s", len(rs), p.says())
	}
	return rs[0]
}

// recipe writes a recipe file and returns its path.
func recipe(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitFor polls until ok, or fails the test.
func waitFor(t *testing.T, what string, p *program, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(enough); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within %v\n%s", what, enough, p.says())
		}
		select {
		case <-p.done:
			if !ok() {
				t.Fatalf("ended before %s\n%s", what, p.says())
			}
			return
		default:
		}
	}
}

// evaluated waits until a run below out has made n evaluations, and returns its
// folder.
func evaluated(t *testing.T, p *program, out string, n int) (folder string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d evaluations", n), p, func() bool {
		files, _ := filepath.Glob(filepath.Join(out, "*", "*", "metrics.jsonl"))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Count(string(b), `"kind":"eval"`) >= n {
				folder = filepath.Dir(f)
				return true
			}
		}
		return false
	})
	return folder
}
