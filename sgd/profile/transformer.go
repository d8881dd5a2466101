package profile

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// BERTLarge is BERT-large, uncased (Devlin, Chang, Lee and Toutanova 2019): 24 layers
// of 1,024 values and 16 heads, 335,141,888 parameters with the pooler and without
// the heads of pre-training. A sample is one sequence.
//
// The paper trains 90 % of the updates with sequences of 128 tokens (appendix A.2).
type BERTLarge struct {
	Length int `doc:"tokens of a sequence, 1 to 512"`
}

// GPT2 is the smallest GPT-2 (Radford et al. 2019): 12 layers of 768 values and 12
// heads, 124,439,808 parameters, the output layer being the table of embeddings. A
// sample is one sequence.
type GPT2 struct {
	Length int `doc:"tokens of a sequence, 1 to 1024"`
}

var (
	_ = Profiles.Add("bert_large", "BERT-large, sequences of 128 tokens, 335 M parameters", BERTLarge{Length: 128})
	_ = Profiles.Add("gpt2", "GPT-2, sequences of 1024 tokens, 124 M parameters", GPT2{Length: 1024})
)

// Validate checks the options.
func (s BERTLarge) Validate() error { return checkLength(s.Length, 512) }

// Validate checks the options.
func (s GPT2) Validate() error { return checkLength(s.Length, 1024) }

func checkLength(n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf(`option "length": want 1 to %d tokens, not %d`, most, n)
	}
	return nil
}

// Profile implements Spec.
func (s BERTLarge) Profile() *Profile {
	const vocabulary, positions, wide = 30522, 512, 1024
	t := newTransformer("bert_large", s.Length, wide)
	t.table("words", vocabulary)
	t.table("positions", positions)
	t.table("segments", 2)
	t.norm("norm")
	for i := range 24 {
		t.layer(i, false)
	}
	t.add("pooler.weight", sgd.Weight, wide, wide, wide*wide) // of the first token
	t.add("pooler.bias", sgd.Bias, 1, wide, 0)
	return t.p
}

// Profile implements Spec.
func (s GPT2) Profile() *Profile {
	const vocabulary, positions, wide = 50257, 1024, 768
	t := newTransformer("gpt2", s.Length, wide)
	t.table("words", vocabulary)
	t.table("positions", positions)
	for i := range 12 {
		t.layer(i, true)
	}
	t.norm("norm")
	// The output layer reads the table of words again: its work is the last of the
	// pass, and the table's gradient is complete with the first layer's.
	t.p.MACs[len(t.p.MACs)-1] = float64(s.Length) * wide * vocabulary
	return t.p
}

// transformer builds a stack of layers of attention and two dense layers.
type transformer struct {
	builder
	length, wide int
}

func newTransformer(name string, length, wide int) *transformer {
	return &transformer{builder{p: &Profile{Name: name, Kind: "language", Input: sgd.Shape{C: 1, H: 1, W: length}}}, length, wide}
}

// table is one of embeddings, from which rows are taken without arithmetic.
func (t *transformer) table(name string, rows int) { t.add(name, sgd.Embedding, rows, t.wide, 0) }

func (t *transformer) norm(name string) {
	t.add(name+".scale", sgd.Norm, 1, t.wide, 0)
	t.add(name+".shift", sgd.Norm, 1, t.wide, 0)
}

// dense is a matrix that every token passes, and a bias; more is work in front of it.
func (t *transformer) dense(name string, in, out int, more float64) {
	t.add(name+".weight", sgd.Weight, out, in, float64(float64(t.length)*float64(in)*float64(out))+more)
	t.add(name+".bias", sgd.Bias, 1, out, 0)
}

// attention is the work of scores, and of sums by them.
func (t *transformer) attention() float64 {
	return 2 * float64(t.length) * float64(t.length) * float64(t.wide)
}

// layer is attention and two dense layers with four times as many values between
// them. One matrix makes queries, keys and values if joint is set. The norms stand
// behind each half, or in front of it if joint is set; they have the same sizes.
func (t *transformer) layer(i int, joint bool) {
	name := fmt.Sprintf("layer%d", i+1)
	if joint {
		t.norm(name + ".norm1")
		t.dense(name+".qkv", t.wide, 3*t.wide, 0)
	} else {
		for _, m := range []string{"query", "key", "value"} {
			t.dense(name+"."+m, t.wide, t.wide, 0)
		}
	}
	t.dense(name+".output", t.wide, t.wide, t.attention())
	if joint {
		t.norm(name + ".norm2")
	} else {
		t.norm(name + ".norm1")
	}
	t.dense(name+".up", t.wide, 4*t.wide, 0)
	t.dense(name+".down", 4*t.wide, t.wide, 0)
	if !joint {
		t.norm(name + ".norm2")
	}
}
