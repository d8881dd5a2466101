package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// passageOf is the form of a text's samples.
func passageOf(context, vocabulary int) sgd.Sample {
	return sgd.Sample{Shape: sgd.Shape{C: 1, H: context, W: 1}, Vocabulary: vocabulary, Classes: vocabulary, Targets: context}
}

func mustTextNet(t testing.TB, in sgd.Sample, layers ...Layer) *Net {
	t.Helper()
	n, err := New(in, 0.1, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Gradients of layers on sequences are those of their definitions in float64, and these are
// those by differences.
func TestSequenceGradients(t *testing.T) {
	t.Parallel()
	for name, layers := range map[string]Sequential{
		"linear":                {Linear{Out: 6}},
		"linear without bias":   {Linear{Out: 4, NoBias: true}, ReLU{}},
		"positions":             {Positions{}},
		"layer norm":            {LayerNorm{}},
		"layer norm alone":      {LayerNorm{NoBias: true, Epsilon: 1e-3}},
		"rms norm":              {RMSNorm{}},
		"rotary":                {Rotary{Heads: 2, Width: 2, Base: 7}},
		"rotary of all":         {Rotary{Heads: 1, Width: 6}},
		"swiglu":                {SwiGLU{}},
		"attention":             {Attention{Heads: 1}},
		"attention of heads":    {Linear{Out: 12}, Attention{Heads: 2}},
		"attention by groups":   {Linear{Out: 16}, Attention{Heads: 4, KVHeads: 2}},
		"attention to one key":  {Linear{Out: 12}, Attention{Heads: 4, KVHeads: 1}},
		"attention in residual": {Residual{Body: Sequential{LayerNorm{}, Linear{Out: 18}, Attention{Heads: 3}}}},
		"dropout":               {Dropout{Rate: 0.3}},
		"attention dropped":     {Linear{Out: 16}, Attention{Heads: 4, KVHeads: 2, Dropout: 0.4}, Linear{Out: 12}, Attention{Heads: 2, Dropout: 0.2}},
	} {
		t.Run(name, func(t *testing.T) {
			in := passageOf(5, 7)
			// The table is read once, and again as the classifier.
			for _, ends := range []Sequential{{Linear{Out: 7}}, {Linear{Out: 6}, Unembedding{}}} {
				net := mustTextNet(t, in, Sequential{Embedding{Width: 6}, Linear{Out: 6}, layers, ends}...)
				newExample(net, 3, 1).differences(t, 8)
				newExample(net, 3, 1).compare(t, 1e-5)
				newExample(net, 33, 2).compare(t, 1e-5) // several lanes and microbatches
			}
			net := mustTextNet(t, in, Sequential{Embedding{Width: 6}, layers, Linear{Out: 7}}...)
			newExample(net, 3, 1).differences(t, 4)
			// Longer than the queries that have their scores at a time.
			net = mustTextNet(t, passageOf(2*attentionRows+9, 7), Sequential{Embedding{Width: 6}, layers, Linear{Out: 7}}...)
			newExample(net, 2, 3).compare(t, 1e-5)
		})
	}
}

func TestTransformerGradients(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"gpt(layers=2,heads=2,width=8)", "gpt(layers=1,heads=1,width=6,bias=true,tied=false,dropout=0.2)", "llama(layers=2,heads=4,kv_heads=2,width=16)",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			m, err := Models.MustParse(text).New(passageOf(9, 11))
			if err != nil {
				t.Fatal(err)
			}
			e := newExample(m.(*Net), 3, 4)
			for i := range e.params { // first weights of 0.02 say little
				if s := e.net.layout.Spans[spanOf(e.net.layout, i)]; s.Role == sgd.Weight {
					e.params[i] *= 15
				}
			}
			e.differences(t, 3)
			e.compare(t, 1e-5)
		})
	}
}

// spanOf is the span of value i.
func spanOf(l sgd.Layout, i int) int {
	for k, s := range l.Spans {
		if i < s.End() {
			return k
		}
	}
	panic("beyond the layout")
}

// Sizes are those of the published formula: 12·L·d² + 2·L·d + d + V·d, and context·d for
// positions.
func TestGPTSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"gpt(layers=6,heads=6,width=384)": 10646784 + 256*384, "gpt": 795904 + 256*128} {
		m, err := Models.MustParse(text).New(passageOf(256, 65))
		if err != nil || m.Layout().Size() != want {
			t.Errorf("%s: %d values, want %d (%v)", text, m.Layout().Size(), want, err)
		}
	}
}

func TestSequencesAreRefused(t *testing.T) {
	t.Parallel()
	text, picture := passageOf(4, 5), sgd.Sample{Shape: sgd.Shape{C: 1, H: 4, W: 1}, Classes: 5}
	for want, c := range map[string]struct {
		in     sgd.Sample
		layers Sequential
	}{
		"the first layer must be an Embedding":  {text, Sequential{Linear{Out: 5}}},
		"embedding1 reads tokens":               {picture, Sequential{Embedding{Width: 3}}},
		"embedding2 reads tokens":               {text, Sequential{Embedding{Width: 3}, Embedding{Width: 3}}},
		"needs an Embedding before it":          {picture, Sequential{Unembedding{}}},
		"the table has rows of 3":               {text, Sequential{Embedding{Width: 3}, Linear{Out: 4}, Unembedding{}}},
		"want 4 labels of 5 classes":            {text, Sequential{Embedding{Width: 3}, Dense{Out: 5}}},
		"cannot cut rows of 4 values":           {text, Sequential{Embedding{Width: 4}, Attention{Heads: 2}}},
		"attention1: dropout must be in [0, 1)": {text, Sequential{Embedding{Width: 3}, Attention{Heads: 1, Dropout: 1}}},
		"heads of an even width":                {text, Sequential{Embedding{Width: 6}, Rotary{Heads: 2, Width: 3}}},
		"rows of an even width, not 3":          {text, Sequential{Embedding{Width: 3}, SwiGLU{}}},
	} {
		if _, err := New(c.in, 0, c.layers...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	for text, want := range map[string]string{
		"gpt(heads=3)": `option "heads"`, "gpt(layers=0)": `option "layers"`, "gpt(dropout=1)": "dropout", "llama(kv_heads=3)": `option "kv_heads"`,
		"llama(width=12,heads=4)": "even width", "llama(base=0.5)": `option "base"`, "llama(hidden=-1)": `option "hidden"`,
	} {
		if _, err := Models.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", text, want, err)
		}
	}
	if _, err := Models.MustParse("gpt").New(picture); err == nil || !strings.Contains(err.Error(), "reads texts") {
		t.Errorf("gpt on pictures: %v", err)
	}
	if _, err := Models.MustParse("mlp").New(text); err == nil {
		t.Error("mlp reads texts")
	}
	// Tokens and labels that there are none of.
	net := mustTextNet(t, text, Embedding{Width: 3}, Linear{Out: 5})
	p := sgd.Pass{Params: make([]float32, net.layout.Size()), Grad: make([]float32, net.layout.Size()), Scratch: net.NewScratch()}
	for want, spoil := range map[string]func(*sgd.Batch){
		"token 5 of sample 1":  func(b *sgd.Batch) { b.Tokens[6] = 5 },
		"token -1 of sample 0": func(b *sgd.Batch) { b.Tokens[0] = -1 },
		"label 7 of sample 1":  func(b *sgd.Batch) { b.Y[4] = 7 },
		"has 7 inputs":         func(b *sgd.Batch) { b.Tokens = b.Tokens[:7] },
		"and 3 labels":         func(b *sgd.Batch) { b.Y = b.Y[:3] },
		"are mixed":            func(b *sgd.Batch) { b.Other, b.Share = []int32{0, 0}, []float32{1, 1} },
	} {
		b := randomBatch(text, 2)
		spoil(&b)
		if _, err := net.Grad(t.Context(), p, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// Tables of tokens and positions, and the layer that scores tokens, have a role of their own.
func TestRolesOfTables(t *testing.T) {
	for model, want := range map[string]string{
		"gpt(layers=1,heads=1,width=4,tied=true)":  "embedding1.weight positions1.weight",
		"gpt(layers=1,heads=1,width=4,tied=false)": "embedding1.weight positions1.weight linear5.weight",
		"llama(layers=1,heads=1,width=4)":          "embedding1.weight linear5.weight",
	} {
		m, err := Models.MustParse(model).New(passageOf(8, 5))
		if err != nil {
			t.Fatal(err)
		}
		var tables []string
		for _, s := range m.Layout().Spans {
			if s.Role == sgd.Embedding {
				tables = append(tables, s.Name)
			}
		}
		if got := strings.Join(tables, " "); got != want {
			t.Errorf("%s: tables %s, want %s", model, got, want)
		}
	}
}

// Metrics of texts that follow from the loss are sums of it, and scores are those that an
// evaluation judges.
func TestMetricsOfTexts(t *testing.T) {
	t.Parallel()
	in := passageOf(4, 6)
	in.Bytes = 1.5
	net := mustTextNet(t, in, Embedding{Width: 5}, Linear{Out: 6})
	if got := net.Metrics(); !slices.Equal(got, []sgd.Metric{sgd.Loss, sgd.Accuracy, sgd.Perplexity, sgd.BitsPerByte}) {
		t.Errorf("metrics %v", got)
	}
	if got := mustTextNet(t, passageOf(4, 6), Embedding{Width: 5}, Linear{Out: 6}).Metrics(); len(got) != 3 {
		t.Errorf("metrics without bytes: %v", got)
	}
	params := make([]float32, net.layout.Size())
	net.Init(params, 1)
	b := sgd.Batch{N: 3, Tokens: []int32{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, Y: []int32{1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0}}
	s := net.NewScratch()
	score, err := net.Eval(params, s, b)
	if err != nil {
		t.Fatal(err)
	}
	loss := score.Sums[0]
	if score.Sums[2] != loss || math.Abs(score.Sums[3]-loss/math.Ln2/1.5) > 1e-12 {
		t.Errorf("sums %v", score.Sums)
	}
	each := 0.0
	for i := range 3 {
		one, err := net.Eval(params, s, sgd.Batch{N: 1, Tokens: b.Tokens[4*i:], Y: b.Y[4*i:]})
		if err != nil {
			t.Fatal(err)
		}
		each += one.Sums[0] * one.Sums[0]
	}
	if math.Abs(score.Squares[0]-each) > 1e-12 || score.Error(3) < 1e-3*score.Mean(3) || score.Error(3) > score.Mean(3) {
		t.Errorf("squares %v, those of samples are %g", score.Squares, each)
	}
	z, err := net.Scores(params, s, sgd.Batch{N: 3, Tokens: b.Tokens})
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range b.Y {
		loss -= crossEntropy(z[6*i:6*i+6], int(y), 0, 1, nil) / 4
	}
	if math.Abs(loss) > 1e-12 {
		t.Errorf("scores have another loss, by %g", loss)
	}
	for _, bad := range []sgd.Batch{{N: 1, Tokens: []int32{9, 0, 0, 0}}, {N: 2, Tokens: b.Tokens[:4]}} {
		if _, err := net.Scores(params, s, bad); err == nil {
			t.Errorf("%v has scores", bad.Tokens)
		}
	}
}

// The loss of many classes, by kernels, is that of the definition, as is its gradient.
func TestLossOfManyClasses(t *testing.T) {
	draws := rng.New(3, "loss")
	z, dz := make([]float32, manyClasses+711), make([]float32, manyClasses+711)
	for i := range z {
		z[i] = float32(6 * draws.Norm(uint64(i)))
	}
	const y, scale = 700, 0.25
	for _, smoothing := range []float64{0, 0.1} {
		var norm, sum float64
		for _, v := range z {
			norm, sum = norm+math.Exp(float64(v)), sum+float64(v)
		}
		even := smoothing / float64(len(z))
		want := math.Log(norm) - (1-smoothing)*float64(z[y]) - even*sum
		for _, into := range [][]float32{dz, nil} {
			if got := crossEntropy(z, y, smoothing, scale, into); math.Abs(got-want) > 1e-6*want {
				t.Errorf("smoothing %v: loss %v, want %v", smoothing, got, want)
			}
		}
		for k, got := range dz {
			q := even
			if k == y {
				q += 1 - smoothing
			}
			// A logit's distance to the largest is rounded to float32, and so is all behind it.
			if want := scale * (math.Exp(float64(z[k]))/norm - q); math.Abs(float64(got)-want) > 5e-6*max(math.Abs(want), scale*even) {
				t.Fatalf("smoothing %v: gradient %d is %v, want %v", smoothing, k, got, want)
			}
		}
	}
}
