package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// The test binary plays a process that saves without end until it is killed.
const saverVariable = "GRADLAB_TEST_SAVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(saverVariable); dir != "" {
		saveForEver(&folder{path: dir})
		return
	}
	RunAsRank(os.Getenv)
	os.Exit(patience.Main(m))
}

func smallLayout() sgd.Layout {
	var l sgd.Layout
	l.Add("fc.weight", sgd.Weight, 40, 50)
	l.Add("fc.bias", sgd.Bias, 1, 50)
	return l
}

// numbered is a state in which every part says which one it is.
func numbered(n int) *checkpoint.State {
	s := &checkpoint.State{Vectors: map[string][]float32{"param": make([]float32, smallLayout().Size())},
		Bytes: map[string][]byte{"core/0": bytes.Repeat([]byte{byte(n)}, 100)}, Ints: map[string]int64{"version": int64(n)}}
	for i := range s.Vectors["param"] {
		s.Vectors["param"][i] = float32(n)
	}
	return s
}

func saveForEver(f *folder) {
	for n := 1; ; n++ {
		// Every version is saved twice, with other counters and another state.
		for _, s := range []*checkpoint.State{numbered(n), numbered(n)} {
			s.Ints["nanoseconds"] = rand.Int64()
			if err := f.saveCheckpoint(n, "hash", s, smallLayout(), counters{Up: uint64(n)}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		fmt.Println(n)
	}
}

func TestCheckpointRoundTrip(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	if s, m, err := f.loadCheckpoint("hash", smallLayout(), false); s != nil || m != nil || err != nil {
		t.Errorf("an empty folder gives %v, %v, %v", s, m, err)
	}
	want := counters{Up: 3, Down: 4, Wall: 1.5, Now: 2.5, Lost: []string{"worker 1: killed"}}
	for n := 1; n <= 3; n++ {
		if err := f.saveCheckpoint(n, "hash", numbered(n), smallLayout(), want); err != nil {
			t.Fatal(err)
		}
		s, m, err := f.loadCheckpoint("hash", smallLayout(), false)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, numbered(n)) || m.Version != n || !reflect.DeepEqual(m.Counters, want) {
			t.Errorf("save %d: got %v and %+v", n, s, m)
		}
	}
	files, _ := os.ReadDir(f.file("checkpoint"))
	if len(files) != 4 {
		t.Errorf("%d files in the checkpoint's folder, want two states and their manifests", len(files))
	}
}

func TestCheckpointOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	if err := f.saveCheckpoint(1, "hash", numbered(1), smallLayout(), counters{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.loadCheckpoint("other", smallLayout(), false); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("%v", err)
	}
}

// A state file or manifest that was cut short, or in which a bit has turned, is
// refused by name.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	if err := f.saveCheckpoint(7, "hash", numbered(7), smallLayout(), counters{Up: 9}); err != nil {
		t.Fatal(err)
	}
	_, good, err := f.loadCheckpoint("hash", smallLayout(), false)
	if err != nil {
		t.Fatal(err)
	}
	state, index := f.file("checkpoint", good.File), f.file("checkpoint", "manifest.json")
	try := func(path, what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.loadCheckpoint("hash", smallLayout(), false); err == nil {
			t.Errorf("%s of %s is not noticed", what, filepath.Base(path))
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the message does not name the file: %v", what, err)
		}
	}
	for _, path := range []string{state, index} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(b); n += 1 + len(b)/150 {
			try(path, fmt.Sprintf("a cut at %d", n), b[:n])
		}
		for bit := 0; bit < 8*len(b); bit += 1 + 8*len(b)/1500 {
			c := bytes.Clone(b)
			c[bit/8] ^= 1 << (bit % 8)
			try(path, fmt.Sprintf("bit %d", bit), c)
		}
		try(path, "a byte more", append(bytes.Clone(b), 'x'))
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := f.loadCheckpoint("hash", smallLayout(), false); err != nil {
		t.Errorf("what was put back is refused: %v", err)
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.loadCheckpoint("hash", smallLayout(), false); err == nil || !strings.Contains(err.Error(), state) {
		t.Errorf("a state that is not there: %v", err)
	}
}

// A manifest cannot make the loader read elsewhere.
func TestManifestStaysInItsFolder(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	if err := f.saveCheckpoint(1, "hash", numbered(1), smallLayout(), counters{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../state-x", "/etc/hostname", "", ".", "state-/../../x"} {
		m := manifest{File: name, Hash: "hash"}
		m.Self = m.sum()
		if err := writeJSON(f.file("checkpoint", "manifest.json"), m); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.loadCheckpoint("hash", smallLayout(), false); err == nil || !strings.Contains(err.Error(), "manifest names") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A process that is killed while it saves leaves a whole checkpoint, never an
// older one than it had told of.
func TestKilledWhileSaving(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	f := &folder{path: t.TempDir()}
	for i := range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), saverVariable+"="+f.path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := 0
		if _, err := fmt.Fscan(out, &told); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; told = n {
			if _, err := fmt.Fscan(out, &n); err != nil {
				break
			}
		}
		_ = cmd.Wait()
		s, m, err := f.loadCheckpoint("hash", smallLayout(), false)
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		want := numbered(m.Version)
		want.Ints["nanoseconds"] = s.Ints["nanoseconds"]
		if m.Version < told || m.Counters.Up != uint64(m.Version) || !reflect.DeepEqual(s, want) {
			t.Errorf("kill %d: version %d after %d was told", i, m.Version, told)
		}
	}
}

// Who reads a file while it is replaced sees the old one or the new one, and a
// write that fails leaves the old one and no litter.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	content := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, 1+n*1000) }
	if err := writeFile(path, content(1)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for n := 2; n < 40; n++ {
			if err := writeFile(path, content(n)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for writing := true; writing; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 || sha256.Sum256(b) != sha256.Sum256(content(int(b[0]))) {
			t.Fatalf("half a file of %d bytes, %v", len(b), err)
		}
	}
	taken := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(taken, content(1)); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A torn last line is dropped, as are lines after the step gone on from.
func TestTornMetrics(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	for step := 10; step <= 50; step += 10 {
		for _, m := range []Line{{Kind: "progress", Progress: &record.Progress{Step: step}}, {Kind: "eval", Eval: &record.Eval{Step: step, Values: record.Values{"accuracy": 0.5}}}} {
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			whole.Write(append(b, '\n'))
		}
	}
	last := bytes.LastIndexByte(whole.Bytes()[:whole.Len()-1], '\n') + 1
	for cut := last; cut < whole.Len()-1; cut++ { // up to the last byte but the line feed
		f := &folder{path: t.TempDir()}
		if err := os.WriteFile(f.file("metrics.jsonl"), whole.Bytes()[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		evals, err := f.appendMetrics(100)
		if err != nil {
			t.Fatal(err)
		}
		if len(evals) != 4 {
			t.Errorf("cut at %d: %d evaluations, want 4", cut, len(evals))
		}
		if err := f.metric(Line{Kind: "eval", Eval: &record.Eval{Step: 60}}); err != nil {
			t.Fatal(err)
		}
		f.metrics.Close()
		b, err := os.ReadFile(f.file("metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if want := string(whole.Bytes()[:last]); !strings.HasPrefix(string(b), want) || strings.Count(string(b), "\n") != strings.Count(want, "\n")+1 {
			t.Fatalf("cut at %d leaves\n%s", cut, b)
		}
	}
	f := &folder{path: t.TempDir()}
	if err := os.WriteFile(f.file("metrics.jsonl"), whole.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	evals, err := f.appendMetrics(30)
	if err != nil || len(evals) != 3 || evals[2].Step != 30 {
		t.Errorf("%v, %v", evals, err)
	}
	f.metrics.Close()
}

func furthest(base, hash string) string {
	c, _ := furthestFolder(base, hash)
	return c.path
}

// Folders are never shared: the second run of a configuration gets its own, and
// the newest of them is the one to go on with, if none has come further.
func TestFolders(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "a", "run-1")
	var paths []string
	for range 3 {
		f, err := createFolder(base, private)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, f.path)
	}
	if want := []string{base, base + "-2", base + "-3"}; !reflect.DeepEqual(paths, want) {
		t.Errorf("%v", paths)
	}
	if got := furthest(base, "h"); got != "" {
		t.Errorf("found %q where no run has begun", got)
	}
	for _, p := range paths[:2] {
		if err := writeJSON(filepath.Join(p, "status.json"), Status{Hash: "h"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := furthest(base, "h"); got != paths[1] {
		t.Errorf("found %q", got)
	}
	if got := furthest(base, "other"); got != "" {
		t.Errorf("found %q for another configuration", got)
	}
	// Folders that were removed hide none, and the newest may take their place.
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if got := furthest(base, "h"); got != paths[1] {
		t.Errorf("found %q beside a gap", got)
	}
	f, err := createFolder(base, private)
	if err != nil || f.path != base {
		t.Fatal(f, err)
	}
	if err := writeJSON(f.file("status.json"), Status{Hash: "h", Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got := furthest(base, "h"); got != base {
		t.Errorf("found %q, not the newest", got)
	}
}
