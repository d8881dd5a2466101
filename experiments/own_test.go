package experiments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
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
	res, err := Execute(context.Background(), run, Options{Recipe: "own", Out: filepath.Join(dir, "runs"), Places: config.Places{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Accuracy < 0.95 {
		t.Errorf("accuracy %g of two classes that a line parts", res.Accuracy)
	}
	if _, err := run.Config.Build(config.Places{Dir: t.TempDir()}, nil); err == nil || !strings.Contains(err.Error(), "mine.csv") {
		t.Errorf("%v", err)
	}
}
