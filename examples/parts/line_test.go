package parts

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/cli"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/sgdtest"
)

func TestGradient(t *testing.T) {
	m, err := nn.Models.MustParse("line").New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 3}, Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := sgd.Batch{N: 2, X: []float32{1, 2, 3, -1, 0, 2}, Y: []int32{1, 0}}
	if err := sgdtest.Gradient(m, []float32{0.5, -0.25, 1, 0.125}, b, sgdtest.GradOptions{}); err != nil {
		t.Error(err)
	}
}

// gradlab runs the program with these arguments.
func gradlab(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	if code := cli.Main(args, &out, &said); code != 0 {
		t.Fatalf("gradlab %s: exit code %d\n%s%s", strings.Join(args, " "), code, &out, &said)
	}
	return out.String()
}

// A metric that gradlab has never heard of has columns, a target, a plateau, a report, plots
// and tags of TensorBoard, and runs are compared by it: less of it is better.
func TestMetricOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	keys := []string{"run", "quickstart", "model=line", "data=spiral", "epochs=0", "steps=40", "eval_every=4", "workers=2", "mode=reduce", "seed=1,2", "device.codec=free", "--out", dir}
	keys = append(keys, "schedule=constant(lr=0.001),constant(lr=0.1)", "target=deviation<=0.7", "codec=raw", "--no-baseline")
	if s := gradlab(t, keys...); !strings.Contains(s, "time to deviation 0.7") || !strings.Contains(s, "last deviation") || !strings.Contains(s, "least deviation") {
		t.Error(s)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(gradlab(t, "runs", "list", "--out", dir, "--format", "json")), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%d runs, %v", len(rows), err)
	}
	for _, r := range rows {
		last, best, step := r["metric.deviation"].(float64), r["best_metric.deviation"].(float64), r["best_metric.deviation_step"].(float64)
		fast := strings.Contains(r["schedule"].(string), "0.1")
		if !(best <= last) || step < 4 || r["accuracy"] != nil || r["reached"] != fast || (best < 0.7) != fast {
			t.Errorf("%v: last %v, best %v at %v, reached %v, accuracy %v", r["run"], last, best, step, r["reached"], r["accuracy"])
		}
	}
	if s := gradlab(t, "runs", "list", "--out", dir, "metric.deviation<0.7", "--columns", "run,metrics"); strings.Count(s, "lr=0.1") != 2 || strings.Contains(s, "lr=0.001") || !strings.Contains(s, "metric.deviation") {
		t.Error(s)
	}
	page := filepath.Join(dir, "report.html")
	s := gradlab(t, "report", dir, "-o", page)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Least deviation, at the best evaluation: constant(lr=0.1)", "Soonest at deviation 0.7 classes"} {
		if !strings.Contains(s+string(html), want) {
			t.Errorf("no %q in %s", want, s)
		}
	}
	for _, want := range []string{"best test deviation (classes)", "deviation over time", ">last deviation</th>"} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("no %q on the page", want)
		}
	}
	events, err := filepath.Glob(filepath.Join(dir, "*", "*", "events.out.*"))
	if err != nil || len(events) != 4 {
		t.Fatalf("%q, %v", events, err)
	}
	if b, err := os.ReadFile(events[0]); err != nil || !bytes.Contains(b, []byte("test/deviation")) {
		t.Errorf("%s has no test/deviation: %v", events[0], err)
	}
	var said bytes.Buffer
	for _, c := range [][2]string{{"target=deviation>=0.7", "of deviation less is better; want deviation<=x"}, {"target=accuracy>=0.7", `the model has no metric "accuracy"; it has deviation, loss`}} {
		said.Reset()
		if code := cli.Main(append(keys[:len(keys):len(keys)], c[0]), &said, &said); code == 0 || !strings.Contains(said.String(), c[1]) {
			t.Errorf("%s: exit code %d, %s; want %q", c[0], code, &said, c[1])
		}
	}
}
