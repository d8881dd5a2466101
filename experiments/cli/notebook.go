package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/notebook"
	"github.com/gradlab/gradlab/experiments/progress"
)

func (e *env) notebookCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "notebook",
		Short: "Run and check the Go notebooks",
		Long: `Notebook runs Go notebooks (GoNB's form of .ipynb) with the go command alone, within
a checkout of gradlab. Run writes the outputs into the files; check runs them and
tells where they show something else than the files do: other words, or numbers
further off than rounding on another processor explains. The exit code is then 1.

  gradlab notebook check notebooks/*.ipynb
  gradlab notebook run notebooks/07-write-your-own-codec.ipynb`,
	}
	c.AddCommand(e.notebookVerb("run", "Run notebooks and write their outputs into the files", func(path string, was, is *notebook.Notebook) error {
		b, err := is.Encode()
		if err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o644)
	}))
	c.AddCommand(e.notebookVerb("check", "Run notebooks and compare what they show with the files", func(path string, was, is *notebook.Notebook) error {
		if d := notebook.Compare(was, is); len(d) > 0 {
			return fmt.Errorf("%s shows something else:\n  %s", path, strings.Join(d, "\n  "))
		}
		fmt.Fprintln(e.out, path, "shows what it showed")
		return nil
	}))
	return c
}

func (e *env) notebookVerb(name, short string, then func(path string, was, is *notebook.Notebook) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " FILE…", Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("notebook %s wants .ipynb files", name)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := moduleRoot(args[0])
			if err != nil {
				return usageError{err}
			}
			var was []*notebook.Notebook
			for _, path := range args {
				n, err := notebook.Read(path)
				if err != nil {
					return usageError{err}
				}
				was = append(was, n)
			}
			display := progress.New(e.screen)
			defer display.Close()
			is, err := notebook.Runner{Root: root, Logf: display.Logf}.Run(cmd.Context(), args...)
			if err != nil {
				return err
			}
			var failed []error
			for i, path := range args {
				failed = append(failed, then(path, was[i], is[i]))
			}
			return errors.Join(failed...)
		},
	}
}

// moduleRoot is the folder of gradlab's go.mod, at or above a file.
func moduleRoot(file string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/gradlab/gradlab\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("%s is not within a checkout of gradlab, which notebooks are built against", file)
		}
		dir = up
	}
}
