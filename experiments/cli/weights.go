package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
)

func (e *env) weightsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "weights RUN [FILE]",
		Short: "A run's final weights as PyTorch names them, in safetensors",
		Long: `Weights writes the final parameters of a run as a safetensors file, weights.safetensors
in the run's folder unless FILE says otherwise. Tensors have PyTorch's shapes, and
torchvision's names where torchvision has the network: resnet18 to resnet152, vgg16,
alexnet, inception3. load_file and load_state_dict read it. Of model=external they are
those of the program: the state_dict of its module.

Such a file is also where a run can begin: gradlab run RECIPE init=FILE. What
PyTorch has under .pth becomes one by safetensors.torch.save_file of its
state_dict. Every tensor must be there, in the shape of the model; counters of
batches (num_batches_tracked) and Inception's auxiliary classifier are left out.
The model.safetensors of another run will do as well.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usageError{fmt.Errorf("weights wants one run, its folder or its id from gradlab runs list, and perhaps a file to write")}
			}
			return nil
		},
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
