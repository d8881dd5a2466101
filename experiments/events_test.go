package experiments

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
)

// eventsOf reads the records of all event files of a run's folder.
func eventsOf(t *testing.T, folder string) (files int, records [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "events.out.tfevents.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			n := binary.LittleEndian.Uint64(b)
			records, b = append(records, b[12:12+n]), b[16+n:]
		}
	}
	return len(names), records
}

func containing(records [][]byte, text string) (n int) {
	for _, r := range records {
		if bytes.Contains(r, []byte(text)) {
			n++
		}
	}
	return n
}

// What metrics.jsonl holds, the event file holds too.
func TestEveryRunHasAnEventFile(t *testing.T) {
	t.Parallel()
	r := mustExecute(t, "mode=server", "policy=asp", "seed=3")
	files, records := eventsOf(t, r.Folder)
	if files != 1 {
		t.Fatalf("%d event files", files)
	}
	b, err := os.ReadFile(filepath.Join(r.Folder, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := ParseMetrics(b)
	if want := len(lines) + 3; len(records) != want { // version, begin, end
		t.Errorf("%d records for %d lines of metrics", len(records), len(lines))
	}
	for tag, want := range map[string]int{
		"brain.Event:2": 1, "_hparams_/session_start_info": 1, "_hparams_/session_end_info": 1, "staleness/histogram": 1,
		"train/loss": len(lines) - len(r.Evals), "test/accuracy": len(r.Evals), r.ParamsSHA256: 1,
	} {
		if n := containing(records, tag); n != want {
			t.Errorf("%q in %d records, want %d", tag, n, want)
		}
	}
}

// A run that is begun anew in its folder, for want of a checkpoint, voids all of
// what came before.
func TestRunBegunAnewVoidsItsEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := mustRuns(t, small, "mode=server", "policy=asp")[0]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := Execute(ctx, run, Options{Recipe: "test", Out: dir, Watch: func(int, int) { cancel() }}); err == nil {
		t.Fatal("it was broken off")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "status.json"))
	var s Status
	if err != nil || len(files) != 1 || readJSON(files[0], &s) != nil || s.State != "stopped" {
		t.Errorf("%v, %v: the run is %s, not stopped", files, err, s.State)
	}
	r, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	n, records := eventsOf(t, r.Folder)
	if restarts := containing(records, "\x3a\x02\x08\x01"); n != 2 || restarts != 1 {
		t.Errorf("%d files, %d restarts", n, restarts)
	}
}

// A resumed run begins a file that voids what came after its checkpoint.
func TestResumedRunHasTwoEventFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := mustRuns(t, small, "checkpoint_every=4")[0]
	stopped, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Stopping: func() bool { return true }})
	if err != ErrStopped {
		t.Fatal(err)
	}
	again, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: true})
	if err != nil || again.Folder != stopped.Folder {
		t.Fatal(again, err)
	}
	files, records := eventsOf(t, again.Folder)
	if restarts := containing(records, "\x3a\x02\x08\x01"); restarts != 1 { // field 7, status START
		t.Errorf("%d restarts", restarts)
	}
	if ends := containing(records, "session_end_info"); files != 2 || ends != 2 {
		t.Errorf("%d files, %d ends", files, ends)
	}
}

// wallTimes are the instants of an event file's records that hold a tag.
func wallTimes(records [][]byte, tag string) (out []float64) {
	for _, r := range records {
		if bytes.Contains(r, []byte(tag)) && r[0] == 0x09 { // field 1, eight bytes
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(r[1:])))
		}
	}
	return out
}

// What a run tells stands in its events at the seconds of the net's clock since the run
// began, over a stop too: relative time in TensorBoard is virtual time.
func TestEventsGoByTheNetsClock(t *testing.T) {
	t.Parallel()
	keys := []string{"checkpoint_every=4", "eval_every=2", "device.flops=1e4", "net=sim"}
	whole := mustExecute(t, keys...)
	run, dir := mustRuns(t, small, keys...)[0], t.TempDir()
	stopped, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Stopping: stopAfter(5)})
	if err != ErrStopped {
		t.Fatal(stopped, err)
	}
	again, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Result{whole, again} {
		_, records := eventsOf(t, r.Folder)
		at := wallTimes(records, "test/accuracy")
		if len(at) < len(r.Evals) {
			t.Fatalf("%d events of %d evaluations", len(at), len(r.Evals))
		}
		first, last := r.Evals[0], r.Evals[len(r.Evals)-1]
		if got, want := at[len(at)-1]-at[0], last.Seconds-first.Seconds; want < 10 || math.Abs(got-want) > 1e-3 {
			t.Errorf("%v s between the first and the last evaluation, on the net's clock %v", got, want)
		}
	}
}

// TensorBoard's numbers are doubles; what they do not hold is text.
func TestHyperparametersKeepDigits(t *testing.T) {
	t.Parallel()
	c := config.Default()
	for seed, want := range map[uint64]any{7: 7.0, 1 << 53: 0x1p53, 1<<53 + 1: "9007199254740993"} {
		if c.Seed = seed; hyperparameters(c)["seed"] != want {
			t.Errorf("seed %d is %v; want %v", seed, hyperparameters(c)["seed"], want)
		}
	}
}

// A result that is read keeps the digits of its numbers.
func TestResultKeepsDigits(t *testing.T) {
	t.Parallel()
	var r Result
	const text = `{"seed":16045690984503098047,"weightless":true}`
	if err := json.Unmarshal([]byte(`{"config":`+text+`}`), &r); err != nil || !r.Weightless() {
		t.Fatal(err, r.Config)
	}
	if b, err := json.Marshal(r.Config); err != nil || string(b) != text {
		t.Errorf("%s, %v; want %s", b, err, text)
	}
}
