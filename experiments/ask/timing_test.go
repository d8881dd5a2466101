package ask_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

const timedRecipe = `about: three of a kind
data: synthetic
model: logistic
mode: reduce
net: local
workers: 1
global_batch: 96
micro_batch: 8
epochs: 2
paper:
  cite: Somebody 2017
  row: [{devices: 8 GPUs, minutes: 100, efficiency: 90, unit: 2, source: table 2, fitted: its rate is from this row}]
forms:
  timing:
    cluster: minsky
    timing: resnet50
    net: sim
    workers: 8
    topology: rings
    device: {codec: free, law: constant}
`

// A training takes its number of updates times what one takes without weights, on the
// paper's cluster and on the user's.
func TestTiming(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	r, err := config.ParseRecipe("three", "three.yaml", []byte(timedRecipe))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ask.AnswerTiming(context.Background(), r, []string{"workers=4", "network.bandwidth=1GB/s"}, config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 2 {
		t.Fatalf("%+v", got.Rows)
	}
	ours, yours := got.Rows[0], got.Rows[1]
	if updates := 2 * 1281167 / 96; math.Abs(float64(ours.Updates-updates)) > 1 || ours.Updates != yours.Updates {
		t.Errorf("%d and %d updates, want %d", ours.Updates, yours.Updates, updates)
	}
	if ours.Workers != 8 || yours.Workers != 4 || ours.Batch != 96 || yours.Batch != 96 || ours.Unit != 2 {
		t.Errorf("%+v, %+v", ours, yours)
	}
	for _, row := range got.Rows {
		if want := float64(row.Updates) * row.Step / 60; math.Abs(row.Minutes-want) > 1e-9*want {
			t.Errorf("%v minutes, want %v", row.Minutes, want)
		}
	}
	// Twelve images on a P100 at 195 a second, and what exchanging them adds; half as
	// many workers take twice as long, and more on a slower network.
	if least := 12.0 / 195; ours.Step < least || ours.Step > 1.5*least || yours.Step < 2*least {
		t.Errorf("an update takes %v and %v s", ours.Step, yours.Step)
	}
	if ours.Efficiency <= 50 || ours.Efficiency >= 100 || yours.Efficiency >= 100 {
		t.Errorf("efficiencies %v and %v", ours.Efficiency, yours.Efficiency)
	}
	if ours.Published == nil || yours.Published != nil || ours.Where != "" || yours.Where != "workers=4 network.bandwidth=1GB/s" {
		t.Errorf("%+v, %+v", ours, yours)
	}
	var b bytes.Buffer
	if err := got.Write(&b, "markdown"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the paper's: minsky", "yours: workers=4", "published for 8 GPUs: table 2; its rate is from this row", "4 workers of 24 each, computed in 3 micro-batches of 8"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}

	// A batch that doubles half-way takes three quarters of the updates, of which a
	// third take twice as long.
	form := "batch_schedule: \"stages(times=[1,2],at=[1])\"\n" + timedRecipe
	if r, err = config.ParseRecipe("three", "three.yaml", []byte(form)); err != nil {
		t.Fatal(err)
	}
	grown, err := ask.AnswerTiming(context.Background(), r, nil, config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if row := grown.Rows[0]; math.Abs(float64(row.Updates)/float64(ours.Updates)-0.75) > 1e-3 || row.Minutes >= ours.Minutes || row.Minutes < 0.9*ours.Minutes {
		t.Errorf("%+v, without growth %+v", row, ours)
	}

	// Pictures of half the side for the first half take no more than half of the time
	// there, and of no more than the exchange of gradients takes.
	form = "side_schedule: \"stages(sides=[112,224],at=[1])\"\n" + timedRecipe
	small, err := config.ParseRecipe("three", "three.yaml", []byte(form))
	if err != nil {
		t.Fatal(err)
	}
	sized, err := ask.AnswerTiming(context.Background(), small, nil, config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if row := sized.Rows[0]; row.Updates != ours.Updates || row.Minutes > 0.75*ours.Minutes || row.Minutes < 0.6*ours.Minutes {
		t.Errorf("%+v, at one side %+v", row, ours)
	}

	var bad *config.Error
	if _, err := ask.AnswerTiming(context.Background(), r, []string{"workers=5"}, config.Places{}, nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "take 4 or 6 workers") {
		t.Errorf("%v", err)
	}
	plain, err := config.LoadRecipe("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask.AnswerTiming(context.Background(), plain, nil, config.Places{}, nil); !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
}
