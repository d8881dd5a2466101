package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd"
)

// runAnd asks for a run and, behind it, least to most arguments.
func runAnd(what string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args) - 1; n < least || n > most {
			return usageError{fmt.Errorf("%s needs a run (its folder, or its id from gradlab runs list)%s", cmd.Name(), what)}
		}
		return nil
	}
}

func sampleCommand(e *env) *cobra.Command {
	s, prompt, n := sgd.Sampling{}, "", 0
	c := &cobra.Command{
		Use:   "sample RUN",
		Short: "Text that a language model writes behind a prompt",
		Long: `Sample writes a prompt and what the model of a run draws behind it, token by token: by its
final weights or, of a run that is not over, those of its last checkpoint. The data
set must be there, as it says what tokens are.

  gradlab sample runs/shakespeare/… --prompt 'ROMEO:' --tokens 500

The same seed draws the same text. --temperature 0 takes the likeliest token each time.`,
		Args: runAnd("", 0, 0),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			if err := experiments.Sample(e.out, r.Folder, e.places(), s, prompt, n); err != nil {
				return usageError{err}
			}
			fmt.Fprintln(e.out)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&prompt, "prompt", "\n", "text to go on with")
	f.IntVar(&n, "tokens", 300, "how many tokens to draw")
	f.Float64Var(&s.Temperature, "temperature", 0.8, "scores are divided by it: below 1 likely tokens become likelier")
	f.IntVar(&s.TopK, "top-k", 0, "draw among so many of the likeliest tokens; 0: among all")
	f.Uint64Var(&s.Seed, "seed", 1, "another seed draws another text")
	return c
}

func (e *env) weightsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "weights RUN [FILE]",
		Short: "A run's final weights as PyTorch names them, in safetensors",
		Long: `Weights writes the final parameters of a run as a safetensors file, weights.safetensors
in the run's folder unless FILE says otherwise. Tensors have PyTorch's shapes, and
torchvision's names where torchvision has the network (resnet18 to resnet152, vgg16,
alexnet, inception3), and those of Hugging Face's files for gpt and llama. load_file and
load_state_dict read it. Of model=external they are
those of the program: the state_dict of its module.

Such a file is also where a run can begin: gradlab run RECIPE init=FILE. What
PyTorch has under .pth becomes one by safetensors.torch.save_file of its
state_dict. Every tensor must be there, in the shape of the model; counters of
batches (num_batches_tracked) and Inception's auxiliary classifier are left out.
The model.safetensors of another run will do as well.`,
		Args: runAnd(" and perhaps a file to write", 0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			path := filepath.Join(r.Folder, "weights.safetensors")
			if len(args) == 2 {
				path = args[1]
			}
			b, err := experiments.Weights(r.Folder)
			if err != nil {
				return usageError{err}
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(e.out, "%s: %s\n", path, progress.Bytes(uint64(len(b))))
			return nil
		},
	}
}
