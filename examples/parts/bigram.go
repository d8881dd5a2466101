package parts

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

var _ = nn.Models.Add("bigram", "a table of scores of the next token, by the token before", Bigram{})

// Bigram guesses each token from the one before it: row t of its table has the scores of all
// tokens behind token t. It shows a model of texts, made of layers of package nn.
type Bigram struct{}

// New makes the model.
func (Bigram) New(in sgd.Sample) (sgd.Model, error) {
	if in.Vocabulary == 0 || in.Labels() != in.Len() {
		return nil, fmt.Errorf("bigram reads texts, such as data=text(path=…), not samples of %v", in)
	}
	return nn.New(in, 0, nn.Embedding{Width: in.Classes, Init: nn.Gauss(0.01)})
}
