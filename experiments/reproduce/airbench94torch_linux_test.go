package reproduce

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
)

// What PyTorch has told of seeds is said as it comes, and is kept where the training stops
// behind them, asked to or not: the next one is asked for the rest alone.
func TestSeedsOfPyTorchAreKept(t *testing.T) {
	t.Parallel()
	small := airbench{widths: []int{8, 32, 32}, train: 16, test: 8, batch: 8, epochs: 1, start: 1, looks: 1}
	ds, err := small.open(config.Places{Dir: madeCIFAR(t, 16, 8), Shelf: &config.Shelf{}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var said []string
	lab := &Lab{memory: &memory{dir: dir}, Logf: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	stub, err := filepath.Abs("testdata/python.sh")
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(dir, "python")
	if err := os.Symlink(stub, python); err != nil {
		t.Fatal(err)
	}
	train := func(python, tells string) ([]float64, string, error) {
		if err := os.WriteFile(filepath.Join(dir, "tells"), []byte(tells), 0o600); err != nil {
			t.Fatal(err)
		}
		return lab.trainInTorch(t.Context(), python, small, ds, 4)
	}
	seed := func(n int, accuracy float64) string {
		return fmt.Sprintf("echo '{\"seed\": %d, \"accuracy\": %g, \"torch\": \"2.0\"}'\n", n, accuracy)
	}
	var shown bytes.Buffer
	lab.Runs.Recipe, lab.Runs.Display = "airbench94", progress.New(&shown, progress.Plain, progress.Every(0))
	step := "echo '{\"seed\": 1, \"step\": 10, \"of\": 40}'\n"
	if _, _, err := train(python, step+seed(1, 0.5)+seed(2, 0.25)+"echo out of memory >&2; exit 1\n"); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a training that failed: %v", err)
	}
	if want := []string{"PyTorch trains seeds [1 2 3 4]", "PyTorch, seed 1: accuracy 0.5000", "PyTorch, seed 2: accuracy 0.2500"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if !strings.HasPrefix(shown.String(), "airbench94: PyTorch, seed 1  step 10/40 (25 %)") {
		t.Errorf("shown: %q", &shown)
	}
	if _, _, err := train(python, "echo no JSON\nexec sleep 1000\n"); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("a line that is none: %v", err)
	}
	var told atomic.Bool
	lab.Logf = func(format string, _ ...any) { told.Store(told.Load() || strings.Contains(format, "accuracy")) }
	lab.Runs.Stopping = told.Load
	if _, _, err := train(python, seed(3, 0.75)+"exec sleep 1000\n"); !errors.Is(err, experiments.ErrStopped) {
		t.Errorf("a training that was asked to stop: %v", err)
	}
	lab.Runs.Stopping = nil
	got, version, err := train(python, seed(4, 1))
	if want := []float64{50, 25, 75, 100}; err != nil || !slices.Equal(got, want) || version != "2.0" {
		t.Errorf("%v of version %q, want %v; %v", got, version, want, err)
	}
	if task, err := os.ReadFile(filepath.Join(dir, "task")); err != nil || !strings.Contains(string(task), `"seeds":[4]`) {
		t.Errorf("asked for %s, %v", task, err)
	}
	if got, _, err := train("no such python", ""); err != nil || len(got) != 4 {
		t.Errorf("all are known, and %v, %v", got, err)
	}
}
