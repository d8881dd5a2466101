package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/store"
)

// A run's folder and figure are named after the keys that its command changed, and the
// folder is printed. A finished run that is made again says where the first one is, unless
// that is known; one that is resumed is found by whatever command makes the same run.
func TestRunsAreNamedAfterWhatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) (folder, said string) {
		var out, err bytes.Buffer
		args = append([]string{"run", "quickstart", "codec=raw", "train_limit=64", "test_limit=16", "epochs=0", "eval_every=1", "device.codec=free", "--out", dir}, args...)
		if code := Main(args, &out, &err); code != ExitOK {
			t.Fatalf("%v: exit %d: %s", args, code, &err)
		}
		m := regexp.MustCompile(`run folder: (\S+)`).FindStringSubmatch(out.String())
		if m == nil {
			t.Fatalf("no folder in\n%s", &out)
		}
		return m[1], out.String() + err.String()
	}
	const again = "the same run is in "
	first, said := run("steps=2")
	if base := filepath.Base(first); !strings.HasPrefix(base, "codec=raw,train_limit=64,test_limit=16,epochs=0,device.codec=free,steps=2-") || strings.Contains(base, "eval_every") {
		t.Errorf("the folder is %s", base)
	}
	if _, err := os.Stat(first); err != nil || strings.Contains(said, again) {
		t.Errorf("%v\n%s", err, said)
	}
	if figures, _ := filepath.Glob(filepath.Join(dir, "quickstart", "quickstart-codec=raw,*.svg")); len(figures) != 1 {
		t.Errorf("figures %v", figures)
	}
	second, said := run("steps=2")
	if second == first || !strings.Contains(said, again+first+"; trained again") {
		t.Errorf("%s again in %s:\n%s", first, second, said)
	}
	if _, said := run("steps=2", "--again"); strings.Contains(said, again) {
		t.Error(said)
	}
	// The keys in another order are the same run.
	var out, err bytes.Buffer
	args := []string{"run", "quickstart", "steps=2", "epochs=0", "device.codec=free", "train_limit=64", "test_limit=16", "codec=raw", "eval_every=1", "--resume", "--out", dir}
	if code := Main(args, &out, &err); code != ExitOK {
		t.Fatalf("exit %d: %s", code, &err)
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "quickstart", "*=*", "result.json")); len(all) != 3 {
		t.Errorf("folders %v, want three: what was resumed is done", all)
	}
}

// Of several runs each folder is printed; of many, what lists them.
func TestFoldersOfSeveralRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("runs", "mine")
	for n, want := range map[int]string{
		1:              "run folder: " + filepath.Join(dir, "seed=1-abc") + "\n",
		2:              "2 run folders in " + dir + ":\n  seed=1-abc\n  seed=2-abc\n",
		fewFolders + 1: "17 run folders in " + dir + ", each named after its run; gradlab runs list " + dir + " has their ids\n",
	} {
		var made []*store.Run
		for i := range n {
			made = append(made, &store.Run{Folder: filepath.Join(dir, fmt.Sprintf("seed=%d-abc", i+1))})
		}
		var out bytes.Buffer
		if tellFolders(&out, made, dir); out.String() != want {
			t.Errorf("%d runs: %q, want %q", n, &out, want)
		}
	}
}
