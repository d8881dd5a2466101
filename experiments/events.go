package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/tensorboard"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// events writes what a run reports as TensorBoard's event file into the run's
// folder, so that `tensorboard --logdir runs` shows all runs there are. Its instants are
// the net's clock, counted from when the run began, so that "relative" in TensorBoard is
// virtual time where that is the run's.
type events struct {
	file *os.File
	w    *tensorboard.Writer
	step int
	zero time.Time // when the first leg began, to a second
	at   time.Time // of what was told last

	tokens uint64 // of a sample; 0: it is no text
}

// openEvents begins a file; from is the step the run goes on from. The folder of
// a resumed run has a file a leg.
func openEvents(f *folder, run config.Run, job *train.Job, from int, resumed bool) (*events, error) {
	at := time.Now()
	file, err := createEvents(f, at)
	if err != nil {
		return nil, err
	}
	e := &events{file: file, step: from, zero: beganAt(f, at), at: at, tokens: uint64(job.Data.Train.Sample().Tokens())}
	if e.w, err = tensorboard.Open(file, at); err == nil && resumed {
		err = e.w.Restart(at, from+1)
	}
	if err == nil {
		err = e.w.Write(at, from, tensorboard.Begin(config.WithoutSeed(run.Name), hyperparameters(run.Config), at),
			tensorboard.Text("config", "```yaml\n"+string(run.Config.YAML())+"```"))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return e, nil
}

// beganAt is when the first event file of a run was made, as its name says.
func beganAt(f *folder, now time.Time) time.Time {
	first := now.Unix()
	files, _ := os.ReadDir(f.path)
	for _, file := range files {
		if at, ok := tensorboard.MadeAt(file.Name()); ok {
			first = min(first, at.Unix())
		}
	}
	return time.Unix(first, 0)
}

// tell writes what holds at a step and a second of the net's clock.
func (e *events) tell(step int, seconds float64, vs []tensorboard.Value) error {
	e.step, e.at = step, e.zero.Add(time.Duration(seconds*float64(time.Second)))
	return e.w.Write(e.at, step, vs...)
}

// createEvents makes a file that was not there.
func createEvents(f *folder, at time.Time) (*os.File, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	for n := 0; ; n++ {
		path := f.file(tensorboard.FileName(at, host, os.Getpid(), n))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, permOf(f.path))
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// hyperparameters are all keys, numbers as float64, and as text those that a float64 does
// not hold. TensorBoard itself tells which ones differ between runs.
func hyperparameters(c config.Config) map[string]any {
	m := c.Map()
	for k, v := range m {
		switch v := reflect.ValueOf(v); {
		case v.CanInt():
			m[k] = float64(v.Int())
		case v.CanUint():
			if m[k] = float64(v.Uint()); v.Uint() > 1<<53 {
				m[k] = strconv.FormatUint(v.Uint(), 10)
			}
		}
	}
	return m
}

func (e *events) progress(p record.Progress) error {
	vs := []tensorboard.Value{
		tensorboard.Scalar("train/loss", p.Loss), tensorboard.Scalar("train/lr", p.LR), tensorboard.Scalar("train/epoch", p.Epoch),
		tensorboard.Scalar("staleness/mean", p.StalenessMean), tensorboard.Scalar("staleness/max", float64(p.StalenessMax)),
		tensorboard.Scalar("cost/seconds", p.Seconds),
	}
	if p.NoiseScale > 0 {
		vs = append(vs, tensorboard.Scalar("train/noise_scale", p.NoiseScale))
	}
	if p.World > 0 {
		vs = append(vs, tensorboard.Scalar("train/workers", float64(p.World)))
	}
	if p.Batch > 0 {
		vs = append(vs, tensorboard.Scalar("train/batch", float64(p.Batch)))
	}
	if p.Side > 0 {
		vs = append(vs, tensorboard.Scalar("train/side", float64(p.Side)))
	}
	if e.tokens > 0 {
		vs = append(vs, tensorboard.Scalar("cost/tokens", float64(p.Samples*e.tokens)))
	}
	return e.tell(p.Step, p.Seconds, vs)
}

func (e *events) eval(v record.Eval) error {
	var vs []tensorboard.Value
	for _, name := range slices.Sorted(maps.Keys(v.Values)) {
		vs = append(vs, tensorboard.Scalar("test/"+name, v.Values[name]))
	}
	vs = append(vs, tensorboard.Scalar("cost/bytes_up", float64(v.BytesUp)), tensorboard.Scalar("cost/bytes_down", float64(v.BytesDown)))
	return e.tell(v.Step, v.Seconds, vs)
}

// end writes what a run came to; r is nil if it failed.
func (e *events) end(r *Result, failed error) error {
	at := time.Now()
	outcome := tensorboard.Success
	var vs []tensorboard.Value
	if r != nil {
		vs = append(vs, tensorboard.Text("result", resultMarkdown(r)))
		if len(r.Staleness) > 0 {
			vs = append(vs, tensorboard.Counts("staleness/histogram", r.Staleness))
		}
	}
	if failed != nil {
		outcome = tensorboard.Failure
		vs = append(vs, tensorboard.Text("error", failed.Error()))
	}
	return e.w.Write(e.at, e.step, append(vs, tensorboard.End(outcome, at))...)
}

func (e *events) close() error { return e.file.Close() }

func resultMarkdown(r *Result) string {
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	rows := [][2]string{{"status", r.Status}}
	for _, m := range r.Metrics {
		if x, ok := r.Values[m.Name]; ok {
			rows = append(rows, [2]string{m.Head(), progress.Value(m, x)})
		}
	}
	for _, row := range append(rows, [][2]string{
		{"updates", fmt.Sprint(r.Steps)}, {"wall seconds", fmt.Sprintf("%.3f", r.WallSeconds)},
		{"virtual seconds", fmt.Sprintf("%.3f", r.VirtualSeconds)}, {"bytes up", fmt.Sprint(r.BytesUp)}, {"bytes down", fmt.Sprint(r.BytesDown)},
		{"staleness, mean and most", fmt.Sprintf("%.2f, %d", r.StalenessMean, r.StalenessMax)}, {"parameters SHA-256", r.ParamsSHA256},
		{"lost", strings.Join(r.Lost, "; ")},
	}...) {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	return b.String()
}
