package experiments

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/train/record"
)

// Of more than ten classes the share of labels among the five best is recorded,
// shown and drawn; of ten there is no word of it.
func TestTop5(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{"synthetic(classes=40,dim=16,sep=3,test=400)": true, "synthetic(classes=10,dim=16,test=100)": false} {
		run := mustRuns(t, "steps: 30\neval_every: 10\nmodel: logistic\ndata: "+data+"\n")[0]
		res, err := Execute(context.Background(), run, Options{Recipe: "r", Out: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		top5, got := res.Values["top5"]
		if got != want || want && !(top5 > res.Values["accuracy"] && top5 < 1) {
			t.Errorf("%s: %v", data, res.Values)
		}
		var lines []record.Eval
		b, err := os.ReadFile(res.Folder + "/metrics.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ParseMetrics(b) {
			if m.Eval != nil {
				lines = append(lines, *m.Eval)
			}
		}
		if len(lines) == 0 || lines[len(lines)-1].Values["top5"] != top5 {
			t.Errorf("%s: recorded %+v", data, lines)
		}
		if strings.Contains(summary(res), "top-5") != want {
			t.Errorf("%s: told as %s", data, summary(res))
		}
		events, err := os.ReadDir(res.Folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if strings.HasPrefix(e.Name(), "events.out") {
				b, err := os.ReadFile(res.Folder + "/" + e.Name())
				if err != nil || strings.Contains(string(b), "test/top5") != want {
					t.Errorf("%s: TensorBoard has top-5: %v, %v", data, !want, err)
				}
			}
		}
	}
}
