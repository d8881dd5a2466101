package experiments

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/progress"
)

// wentOn goes on with the runs below dir, and returns what was said.
func wentOn(t *testing.T, dir string, older bool) (*Result, string, error) {
	t.Helper()
	var says bytes.Buffer
	d := progress.New(&says, progress.Plain)
	defer d.Close()
	run := mustRuns(t, small, "steps=60", "checkpoint_every=4")[0]
	r, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: true, AllowOlder: older, Display: d})
	d.Close()
	return r, says.String(), err
}

// stoppedRun leaves a run with two generations of checkpoints below dir.
func stoppedRun(t *testing.T, dir string, after int) string {
	t.Helper()
	r, err := Execute(t.Context(), mustRuns(t, small, "steps=60", "checkpoint_every=4")[0], Options{Recipe: "test", Out: dir, Stopping: stopAfter(after)})
	if !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	return r.Folder
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cutShort leaves half of a file.
func cutShort(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, string(b[:len(b)/2]))
}

// A resume never begins anew in silence: where status.json is damaged it says so and
// goes on, with the bits of a run that was not stopped; where the checkpoint is, it
// refuses and names the file, and goes on from the one before when told to.
func TestF13NoSilentRestart(t *testing.T) {
	t.Parallel()
	want := mustExecute(t, "steps=60", "checkpoint_every=4")
	newest := func(t *testing.T, folder string) string {
		m, err := readManifest(filepath.Join(folder, "checkpoint", manifestFile))
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join("checkpoint", m.File)
	}
	status, index := "status.json", filepath.Join("checkpoint", manifestFile)
	for name, c := range map[string]struct {
		damage func(t *testing.T, folder string) (file string)
		mended bool // it goes on with a word; else it is refused
		older  bool // and goes on with --allow-older
	}{
		"status missing":    {func(t *testing.T, f string) string { remove(t, filepath.Join(f, status)); return status }, true, false},
		"status cut short":  {func(t *testing.T, f string) string { cutShort(t, filepath.Join(f, status)); return status }, true, false},
		"status empty":      {func(t *testing.T, f string) string { overwrite(t, filepath.Join(f, status), ""); return status }, true, false},
		"status of nothing": {func(t *testing.T, f string) string { overwrite(t, filepath.Join(f, status), "{}"); return status }, true, false},
		"status of another hash": {func(t *testing.T, f string) string {
			overwrite(t, filepath.Join(f, status), `{"schema":1,"state":"stopped","config_hash":"0123456789ab"}`)
			return status
		}, true, false},
		"status and configuration missing": {func(t *testing.T, f string) string {
			remove(t, filepath.Join(f, status))
			remove(t, filepath.Join(f, "config.yaml"))
			return status
		}, true, false},
		"manifest missing":   {func(t *testing.T, f string) string { remove(t, filepath.Join(f, index)); return index }, false, true},
		"manifest cut short": {func(t *testing.T, f string) string { cutShort(t, filepath.Join(f, index)); return index }, false, true},
		"state missing":      {func(t *testing.T, f string) string { p := newest(t, f); remove(t, filepath.Join(f, p)); return p }, false, true},
		"state cut short":    {func(t *testing.T, f string) string { p := newest(t, f); cutShort(t, filepath.Join(f, p)); return p }, false, true},
		"metrics missing":    {func(t *testing.T, f string) string { remove(t, filepath.Join(f, metricsFile)); return metricsFile }, false, false},
		"metrics empty": {func(t *testing.T, f string) string {
			overwrite(t, filepath.Join(f, metricsFile), "")
			return metricsFile
		}, false, false},
		"metrics cut short": {func(t *testing.T, f string) string { cutShort(t, filepath.Join(f, metricsFile)); return metricsFile }, false, false},
		"both manifests missing": {func(t *testing.T, f string) string {
			remove(t, filepath.Join(f, index))
			remove(t, filepath.Join(f, "checkpoint", olderFile))
			return index
		}, false, false},
		"status and manifest": {func(t *testing.T, f string) string {
			remove(t, filepath.Join(f, status))
			cutShort(t, filepath.Join(f, index))
			return index
		}, false, true},
		"nothing that tells": {func(t *testing.T, f string) string {
			remove(t, filepath.Join(f, status))
			remove(t, filepath.Join(f, "config.yaml"))
			if err := os.RemoveAll(filepath.Join(f, "checkpoint")); err != nil {
				t.Fatal(err)
			}
			overwrite(t, filepath.Join(f, status), "")
			return status
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			folder := stoppedRun(t, dir, 80)
			stoppedRun(t, dir, 40) // another one that is less far, which nothing is wrong with
			file := c.damage(t, folder)
			r, says, err := wentOn(t, dir, false)
			if !c.mended {
				if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "--allow-older") != c.older {
					t.Fatalf("want a refusal that names %s, got %v", file, err)
				}
				if r, says, err = wentOn(t, dir, true); !c.older {
					if err == nil {
						t.Error("with --allow-older it goes on, where there is no older checkpoint")
					}
					return
				}
				file = "--allow-older"
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Folder != folder || r.ParamsSHA256 != want.ParamsSHA256 || !strings.Contains(says, "resumed from step") || !strings.Contains(says, file) {
				t.Errorf("it went on in %s (want %s), its bits are as unstopped: %v\n%s", r.Folder, folder, r.ParamsSHA256 == want.ParamsSHA256, says)
			}
			if again, _, err := wentOn(t, dir, false); err != nil || again.Folder != folder || again.ParamsSHA256 != r.ParamsSHA256 {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// A run that is done is not made again because its status.json is damaged.
func TestF13DoneStaysDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, _, err := wentOn(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	cutShort(t, filepath.Join(first.Folder, "status.json"))
	r, says, err := wentOn(t, dir, false)
	if err != nil || r.Folder != first.Folder || r.WallSeconds != first.WallSeconds || !strings.Contains(says, "written anew") {
		t.Errorf("%v: made again in %s\n%s", err, r.Folder, says)
	}
	if rec, err := ReadRecord(r.Folder); err != nil || rec.Status.State != "done" {
		t.Errorf("its status.json is not whole again: %v", err)
	}
}

// A process that is killed while it writes its first checkpoint leaves a state without
// a manifest, and nothing that would be lost.
func TestF12KilledInTheFirstSave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := stoppedRun(t, dir, 80)
	remove(t, filepath.Join(folder, "checkpoint", manifestFile))
	remove(t, filepath.Join(folder, "checkpoint", olderFile))
	overwrite(t, filepath.Join(folder, "checkpoint", firstFile), "")
	r, says, err := wentOn(t, dir, false)
	if err != nil || r.Folder != folder || !strings.Contains(says, "it begins at step 0") {
		t.Errorf("%v\n%s", err, says)
	}
}

// A run does not go on from a record that is not what was written: not where a line cannot
// be read, nor where one says something else. A torn last one is what a kill leaves.
func TestDamagedMetricsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(b []byte) []byte
		want   string // "": it goes on
	}{
		"torn":      {func(b []byte) []byte { return append(b, `{"kind":"prog`...) }, ""},
		"not valid": {func(b []byte) []byte { b[bytes.IndexByte(b, '\n')+3] = 0; return b }, "lines up to the checkpoint"},
		"another number": {func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"step":1,`), []byte(`"step":2,`), 1)
		}, "not what was written"},
		"one less": {func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }, "can be read"},
	} {
		dir := t.TempDir()
		path := filepath.Join(stoppedRun(t, dir, 80), metricsFile)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := c.damage(bytes.Clone(b))
		if bytes.Equal(b, changed) {
			t.Fatalf("%s: nothing is damaged in\n%s", name, b)
		}
		overwrite(t, path, string(changed))
		_, _, err = wentOn(t, dir, false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: want %q, got %v", name, c.want, err)
		}
	}
}
