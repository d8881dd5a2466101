package profile

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Llama is a transformer of the kind of Llama (Touvron et al. 2023), of any size: norms
// in front of each half, gated layers (SwiGLU), no biases, and an output layer that is
// not the table of embeddings. A sample is one sequence.
//
// By default it is torchtitan's debug model with GPT-2's vocabulary, 30,846,720
// parameters, which diloco-measured trained. TinyLlama is
// llama(layers=22,wide=2048,hidden=5632,keys=256,vocabulary=32000,length=2048).
type Llama struct {
	Layers     int `doc:"layers, at least 1"`
	Wide       int `doc:"values of a token between layers, at least 1"`
	Hidden     int `doc:"values inside the gated layers, at least 1"`
	Keys       int `doc:"values of a token's keys, and of its values, where heads share them; 0: as many as wide"`
	Vocabulary int `doc:"words, at least 1"`
	Length     int `doc:"tokens of a sequence, at least 1"`
}

var _ = Profiles.Add("llama", "a transformer of the kind of Llama, 30.8 M parameters unless said otherwise", Llama{Layers: 6, Wide: 256, Hidden: 768, Vocabulary: 50257, Length: 512})

// Validate checks the options.
func (s Llama) Validate() error {
	for _, o := range []struct {
		name     string
		n, least int
	}{{"layers", s.Layers, 1}, {"wide", s.Wide, 1}, {"hidden", s.Hidden, 1}, {"keys", s.Keys, 0}, {"vocabulary", s.Vocabulary, 1}, {"length", s.Length, 1}} {
		if o.n < o.least || o.n > 1<<20 {
			return fmt.Errorf("option %q: want %d to %d, not %d", o.name, o.least, 1<<20, o.n)
		}
	}
	if s.Keys > s.Wide {
		return fmt.Errorf(`option "keys": want at most wide, %d, not %d`, s.Wide, s.Keys)
	}
	return nil
}

// Profile implements Spec.
func (s Llama) Profile() *Profile {
	keys := s.Keys
	if keys == 0 {
		keys = s.Wide
	}
	t := newTransformer("llama", s.Length, s.Wide)
	matrix := func(name string, in, out int, more float64) {
		t.add(name, sgd.Weight, out, in, float64(float64(s.Length)*float64(in)*float64(out))+float64(more))
	}
	scale := func(name string) { t.add(name, sgd.Norm, 1, s.Wide, 0) }
	t.table("words", s.Vocabulary)
	for i := range s.Layers {
		name := fmt.Sprintf("layer%d.", i+1)
		scale(name + "norm1")
		matrix(name+"query", s.Wide, s.Wide, 0)
		matrix(name+"key", s.Wide, keys, 0)
		matrix(name+"value", s.Wide, keys, 0)
		matrix(name+"output", s.Wide, s.Wide, t.attention())
		scale(name + "norm2")
		matrix(name+"gate", s.Wide, s.Hidden, 0)
		matrix(name+"up", s.Wide, s.Hidden, 0)
		matrix(name+"down", s.Hidden, s.Wide, 0)
	}
	scale("norm")
	matrix("head", s.Wide, s.Vocabulary, 0)
	return t.p
}
