package nn

import (
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// GPT is a decoder-only transformer in the form of GPT-2 (Radford et al. 2019): a table of
// tokens and one of positions, then blocks
//
//	x += projection(attention(norm(x)))
//	x += W₂·gelu(W₁·norm(x)), W₁ of 4·Width rows
//
// a norm, and the table again as the classifier. Weights start at N(0, 0.02²), those that
// end in a sum at N(0, 0.02²/(2·Layers)). GELU is the exact one, and by default no layer
// has a bias, as in nanoGPT; GPT-2 has biases, and the approximation by tanh. Dropout is
// behind the tables, among the weights of attention and in front of each sum. The context is that of the data.
type GPT struct {
	Layers    int     `doc:"number of blocks"`
	Heads     int     `doc:"heads of attention, a divisor of width"`
	Width     int     `doc:"values of a position"`
	Bias      bool    `doc:"dense layers and norms have a bias"`
	Tied      bool    `doc:"the classifier is the table of tokens"`
	Dropout   float64 `doc:"share of values dropped in training, behind the tables, among the weights of attention and in front of each sum"`
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

// Llama is a decoder-only transformer in the form of Llama (Touvron et al. 2023, arXiv
// 2302.13971; keys and values by groups as in arXiv 2307.09288): positions by rotation, RMS
// norms, SwiGLU, no biases, and a classifier of its own. Weights start as those of GPT.
type Llama struct {
	Layers    int     `doc:"number of blocks"`
	Heads     int     `doc:"heads of attention, a divisor of width"`
	KVHeads   int     `spec:"kv_heads" doc:"heads of keys and values, a divisor of heads; 0 is heads"`
	Width     int     `doc:"values of a position"`
	Hidden    int     `doc:"hidden units of a block; 0 is 8/3 of width, to a multiple of 64"`
	Base      float64 `doc:"base of the rotations; 0 is 10,000"`
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

var (
	_ = Models.Add("gpt", "transformer in the form of GPT-2, for texts", GPT{Layers: 4, Heads: 4, Width: 128, Tied: true})
	_ = Models.Add("llama", "transformer in the form of Llama, for texts", Llama{Layers: 4, Heads: 4, Width: 128})
)

// Validate checks the options.
func (m GPT) Validate() error {
	return errors.Join(checkBlocks(m.Layers, m.Heads, m.Width), checkDropout(m.Dropout), checkSmoothing(m.Smoothing))
}

// Validate checks the options.
func (m Llama) Validate() error {
	var errs []error
	switch {
	case m.KVHeads < 0 || m.KVHeads > 0 && m.Heads%m.KVHeads != 0:
		errs = append(errs, fmt.Errorf(`option "kv_heads": want a divisor of heads=%d, or 0, not %d`, m.Heads, m.KVHeads))
	case m.Heads > 0 && m.Width/m.Heads%2 != 0:
		errs = append(errs, fmt.Errorf(`option "width": rotations need heads of an even width, not %d/%d`, m.Width, m.Heads))
	}
	if m.Hidden < 0 {
		errs = append(errs, fmt.Errorf(`option "hidden": want at least 1, or 0, not %d`, m.Hidden))
	}
	if m.Base != 0 && !(m.Base > 1 && m.Base <= 1e12) {
		errs = append(errs, fmt.Errorf(`option "base": want above 1 and at most 1e12, or 0, not %g`, m.Base))
	}
	return errors.Join(append(errs, checkBlocks(m.Layers, m.Heads, m.Width), checkSmoothing(m.Smoothing))...)
}

func checkBlocks(layers, heads, width int) error {
	switch {
	case layers < 1 || layers > 1000:
		return fmt.Errorf(`option "layers": want 1 to 1000, not %d`, layers)
	case width < 1 || heads < 1 || width%heads != 0:
		return fmt.Errorf(`option "heads": want a divisor of width=%d, not %d`, width, heads)
	}
	return nil
}

// checkTokens refuses samples that a language model cannot read.
func checkTokens(model string, in sgd.Sample) error {
	if in.Vocabulary == 0 || in.Labels() != in.Len() || in.Classes != in.Vocabulary {
		return fmt.Errorf("nn: %s reads texts, such as data=text(path=…), and guesses a token for each; samples are %v", model, in)
	}
	return nil
}

// weightDeviation is that of first weights.
const weightDeviation = 0.02

// New builds the model for texts.
func (m GPT) New(in sgd.Sample) (sgd.Model, error) {
	if err := errors.Join(m.Validate(), checkTokens("gpt", in)); err != nil {
		return nil, err
	}
	init, ends := Gauss(weightDeviation), Gauss(weightDeviation/math.Sqrt(2*float64(m.Layers)))
	norm := LayerNorm{NoBias: !m.Bias}
	dropped := func(layers ...Layer) Sequential {
		if m.Dropout > 0 {
			layers = append(layers, Dropout{Rate: m.Dropout})
		}
		return layers
	}
	layers := dropped(Embedding{Width: m.Width, Init: init}, Positions{Init: init})
	modules := []string{"transformer.wte", "transformer.wpe"}
	for i := range m.Layers {
		block := fmt.Sprintf("transformer.h.%d.", i)
		layers = append(layers,
			Residual{Body: dropped(norm,
				Linear{Out: 3 * m.Width, Init: init, NoBias: !m.Bias}, Attention{Heads: m.Heads, Dropout: m.Dropout},
				Linear{Out: m.Width, Init: ends, NoBias: !m.Bias})},
			Residual{Body: dropped(norm,
				Linear{Out: 4 * m.Width, Init: init, NoBias: !m.Bias}, GELU{},
				Linear{Out: m.Width, Init: ends, NoBias: !m.Bias})})
		modules = append(modules, block+"ln_1", block+"attn.c_attn", block+"attn.c_proj", block+"ln_2", block+"mlp.c_fc", block+"mlp.c_proj")
	}
	layers, modules = append(layers, norm), append(modules, "transformer.ln_f")
	if m.Tied {
		layers = append(layers, Unembedding{})
	} else {
		layers, modules = append(layers, Linear{Out: in.Classes, Init: init, NoBias: true, Role: sgd.Embedding}), append(modules, "lm_head")
	}
	n, err := newNamed(in, m.Smoothing, modules, layers)
	if err != nil {
		return nil, err
	}
	n.forms = forms{turned: []string{".c_attn", ".c_proj", ".c_fc"}, longer: "transformer.wpe"}
	return n, nil
}

// New builds the model for texts.
func (m Llama) New(in sgd.Sample) (sgd.Model, error) {
	if err := errors.Join(m.Validate(), checkTokens("llama", in)); err != nil {
		return nil, err
	}
	init, ends := Gauss(weightDeviation), Gauss(weightDeviation/math.Sqrt(2*float64(m.Layers)))
	kv, hidden, head := m.KVHeads, m.Hidden, m.Width/m.Heads
	if kv == 0 {
		kv = m.Heads
	}
	if hidden == 0 {
		hidden = (8*m.Width/3 + 63) / 64 * 64
	}
	layers := Sequential{Embedding{Width: m.Width, Init: init}}
	modules, splits := []string{"model.embed_tokens"}, map[string]split{}
	for i := range m.Layers {
		block := fmt.Sprintf("model.layers.%d.", i)
		attention, mlp := block+"self_attn", block+"mlp"
		modules = append(modules, block+"input_layernorm", attention, attention+".o_proj", block+"post_attention_layernorm", mlp, mlp+".down_proj")
		splits[attention] = split{{attention + ".q_proj", m.Heads * head}, {attention + ".k_proj", kv * head}, {attention + ".v_proj", kv * head}}
		splits[mlp] = split{{mlp + ".gate_proj", hidden}, {mlp + ".up_proj", hidden}}
		layers = append(layers,
			Residual{Body: Sequential{RMSNorm{},
				Linear{Out: (m.Heads + 2*kv) * head, Init: init, NoBias: true},
				Rotary{Heads: m.Heads + kv, Width: head, Base: m.Base}, Attention{Heads: m.Heads, KVHeads: kv},
				Linear{Out: m.Width, Init: ends, NoBias: true}}},
			Residual{Body: Sequential{RMSNorm{},
				Linear{Out: 2 * hidden, Init: init, NoBias: true}, SwiGLU{},
				Linear{Out: m.Width, Init: ends, NoBias: true}}})
	}
	n, err := newNamed(in, m.Smoothing, append(modules, "model.norm", "lm_head"), append(layers, RMSNorm{}, Linear{Out: in.Classes, Init: init, NoBias: true, Role: sgd.Embedding}))
	if err != nil {
		return nil, err
	}
	n.forms = forms{splits: splits}
	return n, nil
}
