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
