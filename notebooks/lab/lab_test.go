package lab

import (
	"encoding/gob"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/store"
)

const small = "data: digits\nmodel: logistic\nsteps: 8\nbatch: 8\nworkers: 2\nnet: sim\neval_every: 4\nmode: server\npolicy: asp\n"

// shown is what the kernel gets in this test; the pipe is opened once.
var shown string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gradlab-lab-")
	if err == nil {
		err = os.Chdir(dir)
	}
	if err == nil {
		shown = filepath.Join(dir, "shown")
		err = os.WriteFile(shown, nil, 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Setenv("GONB_PIPE", shown)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// messages are all that was shown so far.
func messages(t *testing.T) (out []message) {
	t.Helper()
	f, err := os.Open(shown)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := gob.NewDecoder(f); ; {
		var m message
		if d.Decode(&m) != nil {
			return out
		}
		out = append(out, m)
	}
}

func TestRunsAreMadeOnce(t *testing.T) {
	runs, err := RunText("once", small, "codec=raw,sign", "seed=1,2")
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 4 || runs[0].State != store.Done {
		t.Fatalf("%d runs", len(runs))
	}
	file := filepath.Join(t.TempDir(), "once.yaml") // the same as a file
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Run(file, "codec=raw,sign", "seed=1,2")
	if err != nil || len(again) != len(runs) {
		t.Fatal(len(again), err)
	}
	for i := range runs {
		if again[i].Folder != runs[i].Folder || !again[i].Updated.Equal(runs[i].Updated) {
			t.Errorf("%s was made again", runs[i].Name)
		}
	}
	before := len(messages(t))
	for _, err := range []error{
		Answer(runs), Figures(runs, "pareto", "staleness"), Fields(runs, "accuracy", "bytes"), Markdown("%d", 1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ms := messages(t)[before:]
	if len(ms) != 5 {
		t.Fatalf("%d messages", len(ms))
	}
	for i, want := range []struct{ kind, text string }{
		{"text/markdown", "Most accurate, at the best evaluation"}, {"image/svg+xml", "accuracy and time"}, {"image/svg+xml", "staleness of gradients"},
		{"text/markdown", "| sign |"}, {"text/markdown", "1"},
	} {
		if s, _ := ms[i].Data[want.kind].(string); !strings.Contains(s, want.text) {
			t.Errorf("message %d lacks %s: %.200v", i, want.text, ms[i].Data)
		}
	}
	if err := Figures(runs, "scaling"); err == nil {
		t.Error("a figure that there is not")
	}
	if err := Fields(runs, "nonsense"); err == nil {
		t.Error("a field that there is not")
	}
}

func TestLines(t *testing.T) {
	runs, err := RunText("lines", small, "schedule=constant(lr=0.1),constant(lr=0.01)", "workers=1,2", "seed=1,2")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Lines(runs, "title", figure.Axis{Log: true}, figure.Axis{}, "accuracy",
		func(r *store.Run) float64 { return Arg(r.Config.Schedule, "lr") }, func(r *store.Run) string { return r.Config.Get("workers") })
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Series) != 2 || f.Series[0].Name != "1" || len(f.Series[0].X) != 2 || f.Series[0].X[0] != 0.01 {
		t.Fatalf("%+v", f.Series)
	}
	var want float64
	for _, r := range runs {
		if r.Config.Workers == 1 && Arg(r.Config.Schedule, "lr") == 0.01 {
			want += r.Result.Values["accuracy"] / 2
		}
	}
	if math.Abs(f.Series[0].Y[0]-want) > 1e-12 {
		t.Errorf("mean %g, want %g", f.Series[0].Y[0], want)
	}
}

func TestArg(t *testing.T) {
	for _, c := range []struct {
		spec, option string
		want         float64
	}{{"constant(lr=0.05)", "lr", 0.05}, {"warmup(constant(lr=0.4),epochs=2)", "epochs", 2}, {"cosine(lr=1e-3,to=0)", "to", 0}, {"sgd", "lr", math.NaN()}} {
		if got := Arg(c.spec, c.option); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s of %s is %g, want %g", c.option, c.spec, got, c.want)
		}
	}
}

func TestErrorOf(t *testing.T) {
	e, err := ErrorOf("sign", "gaussian")
	if err != nil || e.Bits > 1.1 || math.Abs(e.VNMSE-(1-2/math.Pi)) > 0.02 { // the law's value
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := ErrorOf("nonsense", "gaussian"); err == nil {
		t.Error("a codec that there is not")
	}
}

func TestStudy(t *testing.T) {
	before := len(messages(t))
	if err := Study("codec-error"); err != nil {
		t.Fatal(err)
	}
	ms := messages(t)[before:]
	if len(ms) < 2 {
		t.Fatalf("%d messages", len(ms))
	}
	if s, _ := ms[len(ms)-1].Data["image/svg+xml"].(string); !strings.HasPrefix(s, "<?xml") {
		t.Error("no figure")
	}
	if s, _ := ms[1].Data["text/markdown"].(string); !strings.Contains(s, "claim, holds") {
		t.Errorf("the points: %s", s)
	}
	if err := Study("nonsense"); err == nil {
		t.Error("a study that there is not")
	}
}
