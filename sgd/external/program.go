package external

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// Program is key model=external: a model that another process computes, in any
// language. See docs/external.md for what it must say and be told.
//
// The package that comes along serves the ResNets of ImageNet with PyTorch, on GPUs too:
//
//	model='external(command="python3 -m gradlab.resnet resnet50 --device=cuda")'
type Program struct {
	Command string        `spec:"command,show" doc:"the program and its arguments, apart at blanks; text in single quotes is one argument; no shell reads it"`
	Values  string        `doc:"how parameters and gradients are in the memory that both share: f32, or bf16, which takes half of it and rounds them"`
	Limit   time.Duration `doc:"end the run with an error if the program says nothing for so long while an answer is due; 0: wait for ever"`
}

var _ = nn.Models.Add("external", "a model that a program of yours computes, in any language (Linux)", Program{Command: "python3 train.py", Values: "f32"})

// Options say which process computes, what its samples are, and how long it may take.
type Options struct {
	// Command is the program and its arguments. No shell reads them.
	Command []string
	// Values is how parameters and gradients are exchanged: f32 or "", or bf16. Then both
	// are rounded to bfloat16, to nearest with ties to even, in every pass and evaluation;
	// first parameters are not.
	Values string
	// Limit is how long the process may say nothing while an answer is due; 0: for ever.
	Limit time.Duration
	// Shape and Classes are of the samples that it will be sent. The process hears of
	// them before it names its tensors; it need not use them.
	Shape   sgd.Shape
	Classes int
}

// Validate checks the options.
func (p Program) Validate() error {
	if err := checkValues(p.Values); err != nil {
		return err
	}
	if p.Limit < 0 {
		return fmt.Errorf("limit must be 0 or more, not %v", p.Limit)
	}
	command, err := words(p.Command)
	if err == nil && len(command) == 0 {
		err = errors.New(`no command; give the program that computes the model: external(command="python3 train.py")`)
	}
	return err
}

func checkValues(values string) error {
	if values == "" || values == "f32" || values == "bf16" {
		return nil
	}
	return fmt.Errorf(`option "values": want f32 or bf16, not %q`, values)
}

// New starts the program and agrees with it on the layout, or takes the processes of
// a model with the same options. CloseAll ends them.
func (p Program) New(in sgd.Sample) (sgd.Model, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("external: %w", err)
	}
	if in.Vocabulary > 0 || in.Labels() > 1 {
		return nil, fmt.Errorf("external: the protocol sends numbers and one label a sample, not %v; a program can read texts by itself", in)
	}
	command, _ := words(p.Command)
	return shared(p, Options{Command: command, Values: p.Values, Limit: p.Limit, Shape: in.Shape, Classes: in.Classes})
}

// words takes a command apart at blanks. Single quotes keep blanks together.
func words(command string) ([]string, error) {
	var out []string
	var word strings.Builder
	quoted, begun := false, false
	for _, c := range command {
		switch blank := c == ' ' || c == '\t' || c == '\n'; {
		case c == '\'':
			quoted, begun = !quoted, true
		case blank && !quoted:
			if begun {
				out = append(out, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("command %q: a single quote has no other", command)
	}
	if begun {
		out = append(out, word.String())
	}
	return out, nil
}
