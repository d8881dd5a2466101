package sgd_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// counter is a model whose next token is most likely the last one plus one.
type counter struct {
	sgd.Model
	in   sgd.Sample
	seen *[][]int32
}

func (counter) NewScratch() sgd.Scratch { return nil }

func (c counter) Scores(_ []float32, _ sgd.Scratch, b sgd.Batch) ([]float32, error) {
	*c.seen = append(*c.seen, slices.Clone(b.Tokens))
	out := make([]float32, len(b.Tokens)*c.in.Classes)
	for i, t := range b.Tokens {
		out[i*c.in.Classes+(int(t)+1)%c.in.Classes] = 3
	}
	return out, nil
}

// Tokens are drawn by the scores behind the last one, the window moves on, and the same seed
// draws the same.
func TestContinue(t *testing.T) {
	t.Parallel()
	in := sgd.Sample{Shape: sgd.Shape{C: 1, H: 3, W: 1}, Vocabulary: 5, Classes: 5, Targets: 3}
	var seen [][]int32
	m := counter{in: in, seen: &seen}
	draw := func(s sgd.Sampling, n int, prompt ...int32) (out []int32) {
		t.Helper()
		if err := s.Continue(m, in, nil, prompt, n, func(token int32) error { out = append(out, token); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := draw(sgd.Sampling{}, 4, 2); !slices.Equal(got, []int32{3, 4, 0, 1}) {
		t.Errorf("the best are %v", got)
	}
	if want := [][]int32{{2, 0, 0}, {2, 3, 0}, {2, 3, 4}, {3, 4, 0}}; !slices.EqualFunc(seen, want, slices.Equal) {
		t.Errorf("windows %v, want %v", seen, want)
	}
	if got := draw(sgd.Sampling{Temperature: 5, TopK: 1}, 2, 1, 2, 3, 4, 0, 1); !slices.Equal(got, []int32{2, 3}) {
		t.Errorf("the one best are %v", got)
	}
	hot := sgd.Sampling{Temperature: 1, Seed: 7}
	a := draw(hot, 40, 0)
	if b := draw(hot, 40, 0); !slices.Equal(a, b) {
		t.Errorf("a seed draws %v and %v", a, b)
	}
	hot.Seed = 8
	if b := draw(hot, 40, 0); slices.Equal(a, b) {
		t.Error("two seeds draw the same")
	}
	stop := errors.New("stop")
	if err := hot.Continue(m, in, nil, []int32{0}, 9, func(int32) error { return stop }); err != stop {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"temperature -1":  sgd.Sampling{Temperature: -1}.Continue(m, in, nil, []int32{0}, 1, nil),
		"temperature NaN": sgd.Sampling{Temperature: math.NaN()}.Continue(m, in, nil, []int32{0}, 1, nil),
		"top_k -1":        sgd.Sampling{TopK: -1}.Continue(m, in, nil, []int32{0}, 1, nil),
		"no token":        sgd.Sampling{}.Continue(m, in, nil, nil, 1, nil),
		"want texts":      sgd.Sampling{}.Continue(m, sgd.Sample{Shape: in.Shape, Classes: 5}, nil, []int32{0}, 1, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// Draws have the probabilities of the scores, and those that are not finite are an error.
func TestDraw(t *testing.T) {
	t.Parallel()
	scores := []float32{0, float32(math.Log(3)), -50, 0}
	const n = 20000
	for _, c := range []struct {
		of   sgd.Sampling
		want [4]float64
	}{
		{sgd.Sampling{Temperature: 1}, [4]float64{.2, .6, 0, .2}},
		{sgd.Sampling{Temperature: 0.5}, [4]float64{1. / 11, 9. / 11, 0, 1. / 11}},
		{sgd.Sampling{Temperature: 1, TopK: 2}, [4]float64{.25, .75, 0, 0}},
		{sgd.Sampling{}, [4]float64{0, 1, 0, 0}},
	} {
		var seen [4]float64
		for at := range uint64(n) {
			k, err := c.of.Draw(scores, at)
			if err != nil {
				t.Fatal(err)
			}
			seen[k]++
		}
		for k, want := range c.want {
			if got := seen[k] / n; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/n) {
				t.Errorf("%+v: token %d in %g of draws, want %g", c.of, k, got, want)
			}
		}
	}
	if _, err := (sgd.Sampling{}).Draw([]float32{0, float32(math.NaN())}, 0); err == nil || !strings.Contains(err.Error(), "token 1 is NaN") {
		t.Error(err)
	}
}
