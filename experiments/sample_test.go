package experiments

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd"
)

// rhymes makes runs of a small language model on a text that repeats itself.
func rhymes(t *testing.T, overrides ...string) (folder, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "t.txt")
	if err := os.WriteFile(file, bytes.Repeat([]byte("abcdé\n"), 60), 0o644); err != nil {
		t.Fatal(err)
	}
	return mustExecute(t, append([]string{"data=text(path=" + file + ",context=8)", "model=gpt(layers=1,heads=2,width=16)", "optimizer=adamw", "schedule=constant(lr=0.03)", "steps=60"}, overrides...)...).Folder, file
}

// A run writes what it has learned, and the same text each time.
func TestSample(t *testing.T) {
	t.Parallel()
	folder, file := rhymes(t)
	write := func(s sgd.Sampling, prompt string, n int) string {
		t.Helper()
		var b bytes.Buffer
		if err := Sample(&b, folder, config.Places{}, s, prompt, n); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got, want := write(sgd.Sampling{}, "ab", 16), "abcdé\nabcdé\nabcdé\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	hot := sgd.Sampling{Temperature: 9, Seed: 3}
	if a := write(hot, "c", 30); a != write(hot, "c", 30) {
		t.Error("a seed draws two texts")
	}
	fails := func(want, folder, prompt string) {
		t.Helper()
		var b bytes.Buffer
		if err := Sample(&b, folder, config.Places{}, sgd.Sampling{}, prompt, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	fails(`prompt "abX": character 'X' is not in the vocabulary of 6; it has "\nabcdé"`, folder, "abX")
	fails("the prompt has no token", folder, "")
	fails("is no run of a language model: its samples are 1x8x8", mustExecute(t).Folder, "a")
	fails("config.yaml", t.TempDir(), "a")
	if err := os.WriteFile(file, bytes.Repeat([]byte("abcde\n"), 60), 0o644); err != nil {
		t.Fatal(err)
	}
	fails("is not what the run was trained on", folder, "a")
	bin := filepath.Join(t.TempDir(), "t.bin")
	if err := os.WriteFile(bin, bytes.Repeat([]byte{1, 0, 2, 0, 3, 0}, 60), 0o644); err != nil {
		t.Fatal(err)
	}
	numbers := mustExecute(t, "data=text(path="+bin+",tokens=ids(size=4),context=8)", "model=gpt(layers=1,heads=2,width=16)").Folder
	fails("tokens=ids has no texts", numbers, "a")
}

// A run that is not over writes from its last checkpoint, and weights of a run of texts go out.
func TestSampleOfACheckpoint(t *testing.T) {
	t.Parallel()
	folder, _ := rhymes(t, "checkpoint_every=20")
	if b, err := Weights(folder); err != nil || !bytes.Contains(b, []byte("transformer.h.0.attn.c_attn.weight")) {
		t.Error(err)
	}
	write := func() (string, error) {
		var b bytes.Buffer
		err := Sample(&b, folder, config.Places{}, sgd.Sampling{}, "ab", 16)
		return b.String(), err
	}
	last, err := write()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if got, err := write(); err != nil || got != last {
		t.Errorf("%q, %v; want %q", got, err, last)
	}
	if err := os.RemoveAll(filepath.Join(folder, "checkpoint")); err != nil {
		t.Fatal(err)
	}
	if _, err := write(); err == nil || !strings.Contains(err.Error(), "has no checkpoint yet") {
		t.Error(err)
	}
}

// What texts are like is known of a run's folder, for its price on other networks.
func TestTextsAreRecorded(t *testing.T) {
	t.Parallel()
	folder, _ := rhymes(t, "codec=raw")
	ds, err := RecordedData(folder)
	if err != nil || ds.Train.Sample().Vocabulary != 6 || ds.Train.Sample().Targets != 8 {
		t.Fatalf("%v, %v", ds.Train.Sample(), err)
	}
}

// The loss of a text has an interval over the windows of the test set.
func TestLossHasAnInterval(t *testing.T) {
	t.Parallel()
	folder, _ := rhymes(t)
	rec, err := ReadRecord(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rec.Evals {
		if !(e.Error > 0 && e.Error < e.Values["loss"]) {
			t.Errorf("loss %g ± %g at step %d", e.Values["loss"], e.Error, e.Step)
		}
	}
	var b bytes.Buffer
	if err := rec.Write(&b); err != nil || !strings.Contains(b.String(), "over test samples") {
		t.Errorf("%v: %s", err, b.String())
	}
}
