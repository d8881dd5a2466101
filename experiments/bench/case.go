package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// Case is one thing to train.
type Case struct {
	Model   string    `json:"model"` // name in nn.Models
	Shape   sgd.Shape `json:"-"`
	Classes int       `json:"classes"`
	Batch   int       `json:"batch"`
	// Precision is that of key precision; the peer's is autocast. "" is float32.
	Precision string `json:"precision,omitempty"`
}

// Standard is the standard set: what the literature trains, small enough for a
// laptop, at the batch sizes common for them.
func Standard() []Case {
	return []Case{
		{Model: "mnistcnn", Shape: sgd.Shape{C: 1, H: 28, W: 28}, Classes: 10, Batch: 100},
		{Model: "mlp", Shape: sgd.Shape{C: 1, H: 28, W: 28}, Classes: 10, Batch: 128},
		{Model: "resnet20", Shape: sgd.Shape{C: 3, H: 32, W: 32}, Classes: 10, Batch: 128},
		{Model: "resnet50", Shape: sgd.Shape{C: 3, H: 64, W: 64}, Classes: 1000, Batch: 16},
		{Model: "resnet50", Shape: sgd.Shape{C: 3, H: 224, W: 224}, Classes: 1000, Batch: 8},
	}
}

// Name is the model and the side of its input, resnet50@224, with the precision behind
// them where it is not float32: resnet50@224 bfloat16.
func (c Case) Name() string {
	return strings.TrimSpace(c.input() + " " + c.Precision)
}

func (c Case) input() string { return fmt.Sprintf("%s@%d", c.Model, c.Shape.H) }

// In returns the cases in each of these precisions: float32, or bfloat16, which PyTorch's
// autocast has on a CPU too.
func In(precisions []string, cases []Case) ([]Case, error) {
	var out []Case
	for _, c := range cases {
		for _, p := range precisions {
			switch p {
			case "float32":
				c.Precision = ""
			case "bfloat16":
				c.Precision = p
			default:
				return nil, fmt.Errorf("no precision %q to measure; there are float32 and bfloat16", p)
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// Pick chooses from the standard set: all of it if names is empty, else the
// cases whose model or Name is named, in the order of the set. batch replaces
// their batch sizes unless it is 0. An unknown name is an error that lists
// those there are.
func Pick(names []string, batch int) ([]Case, error) {
	if batch < 0 {
		return nil, fmt.Errorf("batch is %d, want at least 1", batch)
	}
	set := Standard()
	for _, n := range names {
		if !slices.ContainsFunc(set, func(c Case) bool { return c.called(n) }) {
			return nil, fmt.Errorf("no case %q; there are %s, and each by its model alone", n, caseNames(set))
		}
	}
	var out []Case
	for _, c := range set {
		if len(names) > 0 && !slices.ContainsFunc(names, c.called) {
			continue
		}
		if batch > 0 {
			c.Batch = batch
		}
		out = append(out, c)
	}
	return out, nil
}

func (c Case) called(name string) bool { return name == c.Model || name == c.input() }

func caseNames(set []Case) string {
	var names []string
	for _, c := range set {
		names = append(names, c.input())
	}
	return strings.Join(names, ", ")
}
