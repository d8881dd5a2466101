package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/experiments"
)

// What is over is opened once, until its status.json or what is told about it is another
// file.
func TestSeen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "runs")
	if err := os.CopyFS(dir, os.DirFS("testdata/runs")); err != nil {
		t.Fatal(err)
	}
	first, err := Find(dir)
	if err != nil || len(first) == 0 {
		t.Fatal(len(first), err)
	}
	var s Seen
	again := func() []*Run {
		t.Helper()
		runs, _ := s.Find(dir)
		return runs
	}
	a, b := again(), again()
	if len(a) != len(first) || len(b) != len(first) {
		t.Fatalf("%d and %d runs, want %d", len(a), len(b), len(first))
	}
	at := -1
	for i := range a {
		if a[i].ID != first[i].ID {
			t.Errorf("run %d is %s, want %s", i, a[i].ID, first[i].ID)
		}
		if a[i].State == Done {
			if at = i; a[i] != b[i] {
				t.Errorf("%s was read twice", a[i].Folder)
			}
		}
	}
	if at < 0 {
		t.Fatal("no run is done")
	}
	if err := experiments.WriteAbout(a[at].Folder, experiments.About{Note: "the good one"}); err != nil {
		t.Fatal(err)
	}
	if c := again(); c[at].About.Note != "the good one" || c[at] == a[at] {
		t.Error("what is told about it is not read")
	}
	status := filepath.Join(a[at].Folder, "status.json")
	text, err := os.ReadFile(status)
	if err == nil {
		err = os.WriteFile(status+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(status+".new", status)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, d := again(), again()
	if c[at] == b[at] || c[at] != d[at] {
		t.Error("a status.json that was replaced is not read, once")
	}
	if err := os.RemoveAll(a[at].Folder); err != nil {
		t.Fatal(err)
	}
	if e := again(); len(e) != len(first)-1 || len(s.over) >= len(first) {
		t.Errorf("%d runs, %d kept, after one of %d was removed", len(e), len(s.over), len(first))
	}
}
