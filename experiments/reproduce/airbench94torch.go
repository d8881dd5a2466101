package reproduce

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

//go:embed airbench94.py
var airbenchScript string

// airbenchAsk is what the script is asked.
type airbenchAsk struct {
	Folder  string  `json:"folder"` // of the samples
	Train   int     `json:"train"`
	Test    int     `json:"test"`
	Widths  []int   `json:"widths"`
	Batch   int     `json:"batch"`
	Epochs  float64 `json:"epochs"`
	Start   float64 `json:"start"`
	Looks   int     `json:"looks"`
	Seeds   []int   `json:"seeds"`
	Threads int     `json:"threads"`
}

// airbenchTold is what it tells of a seed: how far it is, or how it ended.
type airbenchTold struct {
	Seed     int     `json:"seed"`
	Step     int     `json:"step"`
	Of       int     `json:"of"`       // 0: it has ended
	Accuracy float64 `json:"accuracy"` // with the looks asked for
	Torch    string  `json:"torch"`
}

// trainInTorch trains the task on samples in PyTorch, with seeds 1 to n: the test
// accuracies in per cent. Seeds that are known from before are not trained again. A stop that
// is asked for ends it at once, as it has no checkpoints.
func (l *Lab) trainInTorch(ctx context.Context, python string, a airbench, ds sgd.Dataset, n int) (accuracies []float64, version string, err error) {
	ask := airbenchAsk{Train: a.train, Test: a.test, Widths: a.widths, Batch: a.batch, Epochs: a.epochs, Start: a.start, Looks: a.looks}
	task, err := json.Marshal(ask)
	if err != nil {
		return nil, "", err
	}
	about := string(task)
	ask.Threads = runtime.GOMAXPROCS(0)
	key := func(seed int) string { return fmt.Sprintf("airbench94.py %s seed %d", about, seed) }
	for seed := 1; seed <= n; seed++ {
		v, ok := l.memory.get(key(seed))
		if !ok {
			ask.Seeds = append(ask.Seeds, seed)
			continue
		}
		accuracies = append(accuracies, v)
	}
	if len(ask.Seeds) == 0 {
		return accuracies, "", nil
	}
	if ask.Folder, err = os.MkdirTemp("", "gradlab-airbench94-"); err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(ask.Folder)
	for name, s := range map[string]sgd.Source{"train": ds.Train, "test": ds.Test} {
		if err := export(s, filepath.Join(ask.Folder, name)); err != nil {
			return nil, "", err
		}
	}
	if task, err = json.Marshal(ask); err != nil {
		return nil, "", err
	}
	l.logf("PyTorch trains seeds %v", ask.Seeds)
	ctx, stop := experiments.UntilStopped(ctx, l.Runs.Stopping)
	defer stop()
	cmd := exec.CommandContext(ctx, python, "-c", airbenchScript, string(task))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("PyTorch: %w", err)
	}
	told, version, wrong := l.hear(out, key)
	if wrong != nil {
		stop()
	}
	if err := cmd.Wait(); wrong == nil && err != nil {
		wrong = fmt.Errorf("PyTorch: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if wrong != nil && l.stopping() { // which PyTorch may have heard as well
		wrong = experiments.Stopped("the same command goes on")
	}
	return append(accuracies, told...), version, wrong
}

// hear takes what the script tells of seeds as it comes and shows how far each is. It keeps
// how they ended under their keys, so that those which are done stay so where the others
// are stopped.
func (l *Lab) hear(out io.Reader, key func(seed int) string) (accuracies []float64, version string, err error) {
	var at *progress.Run
	shown := 0
	defer func() { at.Drop() }()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var told airbenchTold
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			return nil, "", fmt.Errorf("PyTorch: %q: %w", lines.Text(), err)
		}
		if told.Of > 0 {
			if shown != told.Seed {
				at, shown = l.Runs.Display.Run(fmt.Sprintf("%s: PyTorch, seed %d", l.Runs.Recipe, told.Seed), told.Of, 0), told.Seed
			}
			at.Steps(told.Step, told.Of)
			continue
		}
		at.Drop()
		if err := l.memory.put(key(told.Seed), 100*told.Accuracy); err != nil {
			return nil, "", err
		}
		l.logf("PyTorch, seed %d: accuracy %.4f", told.Seed, told.Accuracy)
		accuracies, version = append(accuracies, 100*told.Accuracy), told.Torch
	}
	return accuracies, version, lines.Err()
}

// export writes the samples of an epoch, inputs to path.x and labels to path.y.
func export(s sgd.Source, path string) error {
	x, err := os.Create(path + ".x")
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := os.Create(path + ".y")
	if err != nil {
		return err
	}
	defer y.Close()
	var b sgd.Batch
	for first := 0; first < s.Len(); first += 500 {
		if err := s.Batch(sgd.Draw{First: uint64(first), N: min(500, s.Len()-first)}, &b); err != nil {
			return err
		}
		if _, err := x.Write(f32.AppendBytes(nil, b.X)); err != nil {
			return err
		}
		var labels []byte
		for _, v := range b.Y {
			labels = append(labels, byte(v), 0, 0, 0)
		}
		if _, err := y.Write(labels); err != nil {
			return err
		}
	}
	return nil
}
