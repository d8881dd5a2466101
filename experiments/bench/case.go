package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// Case is one thing to train.
type Case struct {
	Title  string     `json:"-"`     // what it is called, if not by its model
	Model  string     `json:"model"` // spec text of nn.Models
	Sample sgd.Sample `json:"-"`
	Batch  int        `json:"batch"`
	// Precision is that of key precision; the peer's is autocast. "" is float32.
	Precision string `json:"precision,omitempty"`
}

// Standard is the standard set: what the literature trains, small enough for a
// laptop, at the batch sizes common for them.
func Standard() []Case {
	images := func(channels, side, classes int) sgd.Sample {
		return sgd.Sample{Shape: sgd.Shape{C: channels, H: side, W: side}, Classes: classes}
	}
	text := func(context, vocabulary int) sgd.Sample {
		return sgd.Sample{Shape: sgd.Shape{C: 1, H: context, W: 1}, Classes: vocabulary, Vocabulary: vocabulary, Targets: context}
	}
	return []Case{
		{Model: "mnistcnn", Sample: images(1, 28, 10), Batch: 100},
		{Model: "mlp", Sample: images(1, 28, 10), Batch: 128},
		{Model: "resnet20", Sample: images(3, 32, 10), Batch: 128},
		{Model: "resnet50", Sample: images(3, 64, 1000), Batch: 16},
		{Model: "resnet50", Sample: images(3, 224, 1000), Batch: 8},
		{Model: "gpt", Sample: text(64, 65), Batch: 12},
		{Title: "gpt-384", Model: "gpt(layers=6,heads=6,width=384)", Sample: text(256, 65), Batch: 8},
		{Title: "gpt-768", Model: "gpt(layers=12,heads=12,width=768)", Sample: text(256, 50304), Batch: 2},
	}
}

// Name is the model and the side of its input, resnet50@224, or the context of a text, gpt@64, with
// the precision behind them where it is not float32: resnet50@224 bfloat16.
func (c Case) Name() string {
	return strings.TrimSpace(c.input() + " " + c.Precision)
}

func (c Case) input() string {
	return fmt.Sprintf("%s@%d", cmp.Or(c.Title, c.Model), max(c.Sample.H, c.Sample.Targets))
}

// isText reports whether samples are texts, of which every token counts.
func (c Case) isText() bool { return c.Sample.Vocabulary > 0 }

// Unit is what rates count: img/s, or tokens/s of texts.
func (c Case) Unit() string {
	if c.isText() {
		return "tokens/s"
	}
	return "img/s"
}

// items is how many of what rates count a step has.
func (c Case) items() int { return c.Batch * c.Sample.Labels() }

// rule is the update rule: momentum, and AdamW for texts.
func (c Case) rule() (rule sgd.Optimizer, lr float64) {
	if c.isText() {
		return sgd.AdamW{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Decay: 0.1}, 1e-3
	}
	return sgd.Momentum{Beta: 0.9}, 0.01
}

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

func (c Case) called(name string) bool {
	family, _, _ := strings.Cut(c.Model, "(")
	return name == family || name == c.Title || name == c.input()
}

func caseNames(set []Case) string {
	var names []string
	for _, c := range set {
		names = append(names, c.input())
	}
	return strings.Join(names, ", ")
}
