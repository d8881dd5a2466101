package sgd

import "testing"

// matrices is a rule from outside that says which tensors it is for.
type matrices struct{ Plain }

func (matrices) Takes(s Span) bool { return s.Role == Weight }

// Groups takes any rule that says for which tensors it is, not on(…) alone.
func TestGroupsTakeSelectiveRules(t *testing.T) {
	var l Layout
	l.Add("w", Weight, 1, 2)
	l.Add("b", Bias, 1, 2)
	tr, err := Groups{Parts: []Optimizer{matrices{}, On{Rule: Plain{}, LR: 10}}}.New(l)
	if err != nil {
		t.Fatal(err)
	}
	u := []float32{1, 1, 1, 1}
	tr.Apply(u, make([]float32, 4), Step{LR: 0.5})
	if want := [4]float32{0.5, 0.5, 5, 5}; [4]float32(u) != want {
		t.Errorf("updates %v, want %v", u, want)
	}
	if _, err := (Groups{Parts: []Optimizer{Plain{}, matrices{}}}).New(l); err == nil {
		t.Error("a first part for all tensors was taken")
	}
}

// A rule that is for some tensors stays so with a rate of its own, and behind filters: what it
// is not for is the next part's, and is not held still.
func TestRatesOfSelectiveRules(t *testing.T) {
	var l Layout
	l.Add("w", Weight, 1, 2)
	l.Add("b", Bias, 1, 2)
	for _, rule := range []Optimizer{matrices{}, Chain{Parts: []Optimizer{Clip{Norm: 1e6}, matrices{}}}, On{Rule: matrices{}, LR: 1}} {
		tr, err := Groups{Parts: []Optimizer{On{Rule: rule, LR: 3}, On{Rule: Plain{}, LR: 10}}}.New(l)
		if err != nil {
			t.Fatal(err)
		}
		u := []float32{1, 1, 1, 1}
		tr.Apply(u, make([]float32, 4), Step{LR: 0.5})
		if want := [4]float32{1.5, 1.5, 5, 5}; [4]float32(u) != want {
			t.Errorf("%T: updates %v, want %v", rule, u, want)
		}
	}
	// The rules of matrices leave tables to others.
	var m Layout
	m.Add("w", Weight, 3, 2)
	m.Add("table", Embedding, 4, 2)
	for _, spec := range []string{"groups(on(muon,lr=20),sgd)", "groups(on(chain(clip,muon),lr=20),sgd)", "groups(muon,sgd)"} {
		tr, err := Optimizers.MustParse(spec).New(m)
		if err != nil {
			t.Fatal(err)
		}
		u := make([]float32, m.Size())
		for i := range u {
			u[i] = float32(i%3) - 0.7
		}
		tr.Apply(u, make([]float32, m.Size()), Step{LR: 1})
		if table := u[m.Spans[1].Off:]; table[0] == 0 && table[1] == 0 {
			t.Errorf("%s: the table stays", spec)
		}
	}
}
