package parts

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/sgdtest"
)

// In a text in which half of the tokens follow from the one before, and the other half are
// one of two, a bigram comes to a loss of ln 2/2.
func TestBigramLearnsWhatFollows(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("abac", 4000) // after a comes b or c, after them a
	if err := os.WriteFile(filepath.Join(dir, "t.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ds, err := data.Open("text(path=t.txt,context=8)", data.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.Models.MustParse("bigram").New(ds.Train.Sample())
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, m.Layout().Size())
	m.Init(params, 1)
	var b sgd.Batch
	if err := ds.Train.Batch(sgd.Draw{N: 32}, &b); err != nil {
		t.Fatal(err)
	}
	if err := sgdtest.Gradient(m, params, b, sgdtest.GradOptions{}); err != nil {
		t.Error(err)
	}
	p := sgd.Pass{Params: params, Grad: make([]float32, len(params)), Scratch: m.NewScratch()}
	loss := 0.0
	for range 200 {
		if loss, err = m.Grad(t.Context(), p, b); err != nil {
			t.Fatal(err)
		}
		for i, g := range p.Grad {
			params[i] -= 2 * g
		}
	}
	if want := math.Ln2 / 2; math.Abs(loss-want) > 0.05 {
		t.Errorf("loss %.3f, want %.3f", loss, want)
	}
}
