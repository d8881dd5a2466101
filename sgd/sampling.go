package sgd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
)

// Scoring is implemented by models that can tell how likely each class is.
type Scoring interface {
	Model
	// Scores computes, for each label of a batch and each class, the logarithm of its odds up
	// to a constant, in inference mode. Labels of the batch are not read. The result is valid
	// until the next use of the scratch.
	Scores(params []float32, s Scratch, b Batch) ([]float32, error)
}

// Sampling says how tokens are drawn behind others: token k with a probability proportional to
// exp(score_k/Temperature), among the TopK of the highest scores (Fan et al. 2018, arXiv
// 1805.04833, section 5.1). Draws are addressed by seed and number of the token.
type Sampling struct {
	Temperature float64 // 0: always the token with the highest score, of equals the first
	TopK        int     // 0: all
	Seed        uint64
}

// Validate checks the options.
func (s Sampling) Validate() error {
	if !(s.Temperature >= 0 && s.Temperature <= 100) {
		return fmt.Errorf("temperature %g: want 0 to 100", s.Temperature)
	}
	if s.TopK < 0 {
		return fmt.Errorf("top_k %d: want at least 1, or 0 for all tokens", s.TopK)
	}
	return nil
}

// Draw draws token number at. It is an error if a score is not finite.
func (s Sampling) Draw(scores []float32, at uint64) (int32, error) {
	order := make([]int32, len(scores))
	for k, z := range scores {
		if z-z != 0 {
			return 0, fmt.Errorf("the score of token %d is %g: the weights have diverged", k, z)
		}
		order[k] = int32(k)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	if s.Temperature == 0 {
		return order[0], nil
	}
	if s.TopK > 0 {
		order = order[:min(s.TopK, len(order))]
	}
	odds, sum := make([]float64, len(order)), 0.0
	for i, k := range order {
		odds[i] = portable.Exp((float64(scores[k]) - float64(scores[order[0]])) / s.Temperature)
		sum += odds[i]
	}
	left := rng.New(s.Seed, "sampling").Float64(at) * sum
	for i, k := range order {
		if left -= odds[i]; left < 0 {
			return k, nil
		}
	}
	return order[len(order)-1], nil // of a sum that was rounded down
}

// Continue draws n tokens behind a prompt of at least one token, and calls each with them in
// turn, until it returns an error. The model sees as many tokens before as a sample of the form
// in has. The prompt may be longer.
func (s Sampling) Continue(m Scoring, in Sample, params []float32, prompt []int32, n int, each func(token int32) error) error {
	if err := s.Validate(); err != nil {
		return err
	}
	context := in.Len()
	if in.Vocabulary == 0 || in.Labels() != context || in.Classes != in.Vocabulary {
		return fmt.Errorf("samples are %v; want texts, and a token for each", in)
	}
	if len(prompt) == 0 {
		return fmt.Errorf("the prompt has no token; want at least one")
	}
	seen := slices.Clone(prompt[max(0, len(prompt)-context):])
	scratch, b := m.NewScratch(), Batch{N: 1, Tokens: make([]int32, context)}
	for at := range n {
		seen = seen[max(0, len(seen)-context):]
		copy(b.Tokens, seen) // what is behind has no effect on the last of them
		scores, err := m.Scores(params, scratch, b)
		if err != nil {
			return err
		}
		token, err := s.Draw(scores[(len(seen)-1)*in.Classes:len(seen)*in.Classes], uint64(at))
		if err != nil {
			return err
		}
		if err := each(token); err != nil {
			return err
		}
		seen = append(seen, token)
	}
	return nil
}
