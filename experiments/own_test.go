package experiments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
)

// A table of one's own is trained on like any other set.
func TestOwnTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("kind,x,y\n")
	for i := range 200 {
		a := float64(i%20) / 20
		fmt.Fprintf(&rows, "%s,%g,%g\n", [2]string{"near", "far"}[i%2], a+float64(i%2), a-float64(i%2))
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.csv"), []byte(rows.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	run := mustRuns(t, "steps: 60\nmodel: logistic\nworkers: 2\nbatch: 8\ndata: csv(path=mine.csv,label=kind)\n")[0]
	var said strings.Builder
	show := progress.New(&said, progress.Plain)
	opt := Options{Recipe: "own", Out: filepath.Join(dir, "runs"), Places: config.Places{Dir: dir}, Display: show}
	res, err := Execute(context.Background(), run, opt)
	if err != nil {
		t.Fatal(err)
	}
	// What was taken for what stands above the run, once for all that train on it.
	again := run
	again.Config.Seed++
	if _, err := Execute(context.Background(), again, opt); err != nil {
		t.Fatal(err)
	}
	show.Close()
	note := strings.Index(said.String(), "line 1 holds the names of columns")
	if strings.Count(said.String(), "line 1 holds") != 1 || note > strings.Index(said.String(), "done:") {
		t.Errorf("a run of a table says\n%s", said.String())
	}
	if res.Values["accuracy"] < 0.95 {
		t.Errorf("accuracy %g of two classes that a line parts", res.Values["accuracy"])
	}
	if _, err := run.Build(config.Places{Dir: t.TempDir()}, nil); err == nil || !strings.Contains(err.Error(), "mine.csv") {
		t.Errorf("%v", err)
	}
}
