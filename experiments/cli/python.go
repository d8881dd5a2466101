package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/sgd/external"
)

func (e *env) pythonCommand() *cobra.Command {
	var path bool
	var install string
	c := &cobra.Command{
		Use:   "python",
		Short: "The Python package for models in PyTorch or numpy",
		Long: `Python hands out the package gradlab, with which a program in Python computes the
model of a run (model=external; docs/external.md). Runs put it into the PYTHONPATH
of the programs they start, so none of this is needed for them.

  gradlab python --path                  the folder to put into PYTHONPATH, for editors
  gradlab python --install               pip install it for python3 in the PATH
  gradlab python --install=./venv/bin/python`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == (install != "") {
				return usageError{errors.New("python wants either --path or --install")}
			}
			dir, err := external.Python()
			if err != nil {
				return err
			}
			if path {
				_, err := fmt.Fprintln(e.out, dir)
				return err
			}
			// pip builds beside the sources, so it gets a copy of its own.
			temp, err := os.MkdirTemp("", "gradlab-python-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			if err := os.CopyFS(temp, os.DirFS(dir)); err != nil {
				return err
			}
			args := strings.Fields("-m pip install --no-deps --no-build-isolation " + temp)
			pip := exec.CommandContext(cmd.Context(), install, args...)
			pip.Stdout, pip.Stderr = e.raw, e.screen
			if err := pip.Run(); err != nil {
				return fmt.Errorf("%s %s: %w; or put %s into PYTHONPATH", install, strings.Join(args[:3], " "), err, dir)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&path, "path", false, "print the folder for PYTHONPATH")
	c.Flags().StringVar(&install, "install", "", "install the package with the pip of this `interpreter`")
	c.Flags().Lookup("install").NoOptDefVal = "python3"
	return c
}
