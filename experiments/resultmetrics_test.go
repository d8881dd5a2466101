package experiments

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// A result keeps its metrics, with units and directions, and their last and best values, in
// JSON; one that lists none has those that are known.
func TestMetricsOfAResult(t *testing.T) {
	t.Parallel()
	mae := sgd.Metric{Name: "mae", Unit: "mm", LessIsBetter: true}
	r := Result{Status: "done", Metrics: []sgd.Metric{mae, sgd.Loss}, Values: record.Values{"mae": 2, "loss": 1}}
	r.Reach(record.Goal{Metric: mae, Value: 1.5}, []record.Eval{
		{Step: 1, Seconds: 3, Values: record.Values{"mae": 1.6, "loss": 2}}, {Step: 2, Seconds: 5, Values: record.Values{"mae": 1.5, "loss": 2}}, {Step: 3, Values: r.Values},
	})
	if !r.TargetReached || r.TargetSeconds != 5 || r.Metric != "mae" || r.Best["mae"] != (record.Best{Value: 1.5, Step: 2}) || r.Best["loss"] != (record.Best{Value: 1, Step: 3}) {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"metric.mae":2`, `"best_metric.mae":1.5`, `"best_metric.mae_step":2`, `"best_loss":1`, `"loss":1`, `{"name":"mae","unit":"mm","less_is_better":true}`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	var again Result
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if again.Evals = r.Evals; !reflect.DeepEqual(again, r) || again.Goal() != (record.Goal{Metric: mae, Value: 1.5}) {
		t.Errorf("%+v, want %+v", again, r)
	}
	if s := summary(&r); !strings.Contains(s, "last mae 2.0000 mm (best 1.5000 mm), loss 1.0000,") {
		t.Error(s)
	}
	var plain Result
	if err := json.Unmarshal([]byte(`{"accuracy":0.5,"loss":1,"best_accuracy":0.6,"best_accuracy_step":4}`), &plain); err != nil || len(plain.Metrics) != 2 || plain.Metrics[0] != sgd.Accuracy || plain.Best["accuracy"] != (record.Best{Value: 0.6, Step: 4}) {
		t.Errorf("%+v, %v", plain, err)
	}
	for _, wrong := range []string{`{"accuracy":"much"}`, `{"accuracy":1,"best_accuracy":"x","best_accuracy_step":1}`, `{"metrics":[{"name":"accuracy","unit":"\u001b[2J"}]}`, `{"metrics":[{"name":"accuracy\n"}]}`} {
		if err := json.Unmarshal([]byte(wrong), &plain); err == nil || !strings.Contains(err.Error(), "accuracy") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
