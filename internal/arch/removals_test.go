package arch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// removal takes a mechanism out of a file, which the test of a row of docs/faults.md must
// notice.
type removal struct {
	fault, what        string
	file, now, without string
	pkg, test          string
}

var removals = []removal{
	{"F15", "the bound of Parquet's rows by the file's bytes",
		"sgd/data/parquetmeta.go", "f.rows < 0 || f.rows > size", "f.rows < 0",
		"sgd/data", "TestF15RowsOfParquet"},
	{"F19", "the end of the oldest of more than 32 strangers",
		"comm/grpcnet/listen.go", "if len(l.order) > l.limit {", "if l.limit < 0 {",
		"comm/grpcnet", "TestF19SilentStrangers"},
	{"F22", "the signal by which the system ends the children of a launcher that died",
		"experiments/process_linux.go", "Pdeathsig: syscall.SIGKILL", "Pdeathsig: 0",
		"experiments/cli/faults", "TestF22LauncherKilled"},
	{"F23", "leases by a clock that cannot be set",
		"comm/grpcnet/conn.go", "return time.Since(epoch0)", "now := time.Now(); return time.Duration(now.UnixNano() - epoch0.UnixNano())",
		"internal/arch", "TestF23LeasesHaveNoWallClock"},
	{"F26", "the look-up of this machine's memory",
		"experiments/config/memory.go", `has = memoryIn(os.DirFS("/"))`, "_ = os.DirFS",
		"experiments/config", "TestF26MemoryOfThisMachine"},
}

// TestRemovalsAreNoticed takes out what keeps promises of docs/faults.md, one mechanism at a
// time and in a copy, and wants the test that the page names to fail. With the tag long,
// and so before a release, the tests run; without it the list itself is held to the code
// and the page.
//
//	go test -tags long -run TestRemovalsAreNoticed ./internal/arch
func TestRemovalsAreNoticed(t *testing.T) {
	base, page := root(t), pages(t)["docs/faults.md"]
	for _, r := range removals {
		t.Run(r.fault+" "+r.what, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(base, r.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(b), r.now); n != 1 {
				t.Fatalf("%s has %q %d times, want once: say here what the mechanism is now", r.file, r.now, n)
			}
			if _, row, ok := strings.Cut(page, "| "+r.fault+" |"); !ok || !strings.Contains(strings.SplitN(row, "\n", 2)[0], "`"+r.test+"`") {
				t.Errorf("row %s of docs/faults.md does not name %s", r.fault, r.test)
			}
			if !patience.Long {
				return
			}
			at, dir := filepath.Join(base, r.file), t.TempDir()
			flags, args := os.Getenv("GOFLAGS"), []string{"test", "-count=1", "-run", "^" + r.test + "$"}
			patched := filepath.Join(dir, "patched.go")
			run := base
			if r.pkg == "internal/arch" { // it reads sources from the disk
				run = filepath.Join(dir, "tree")
				copySources(t, run, base)
				patched = filepath.Join(run, r.file)
			} else {
				overlay, err := json.Marshal(map[string]map[string]string{"Replace": {at: patched}})
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
					t.Fatal(err)
				}
				flags += " -overlay=" + filepath.Join(dir, "overlay.json") // of programs that tests build, too
			}
			if err := os.WriteFile(patched, []byte(strings.Replace(string(b), r.now, r.without, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			c := exec.Command("go", append(args, "./"+r.pkg)...)
			c.Dir, c.Env = run, append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags)
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+r.test) {
				t.Errorf("without %s %s does not fail: %v\n%s", r.what, r.test, err, out)
			}
		})
	}
}

// copySources copies what the tests of this package read: the module's Go files and pages.
func copySources(t *testing.T, to, from string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go", "go.mod", "go.sum", "*.md")
	list.Dir = from
	out, err := list.Output()
	if err != nil {
		t.Skipf("no list of files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) { // removed, and not committed
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
