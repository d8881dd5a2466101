package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/config"
)

// recipeCommand prints a recipe: as it is written, or resolved.
func (e *env) recipeCommand() *cobra.Command {
	var resolved, quick bool
	c := &cobra.Command{
		Use:   "recipe NAME|FILE [key=value …]",
		Short: "A recipe as it is written, or resolved to its runs",
		Long: `Recipe prints a recipe as it is written: an embedded one by name, or a file by path.
It is a good start for one of your own; gradlab help recipes has the whole syntax:

  gradlab recipe quickstart > mine.yaml

With --resolved it prints a recipe of the same runs that needs no other: the base
laid in, axes and command line multiplied out, keys at their defaults left out.

  gradlab recipe quickstart --resolved workers=2,4`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("recipe needs a name; see gradlab list recipes")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if !resolved {
				if len(args) > 1 || quick {
					return usageError{errors.New("a recipe as it is written takes no keys; add --resolved")}
				}
				b, err := config.RecipeText(args[0])
				if err != nil {
					return usageError{err}
				}
				_, err = e.raw.Write(b)
				return err
			}
			r, runs, err := e.load(args[0], args[1:], quick)
			if err != nil {
				return err
			}
			b, err := config.ResolvedRecipe(r.About, runs)
			if err != nil {
				return err
			}
			word := "runs"
			if len(runs) == 1 {
				word = "run"
			}
			fmt.Fprintf(e.out, "# %s resolved: %d %s\n", r.Name, len(runs), word)
			_, err = e.raw.Write(b)
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&resolved, "resolved", false, "a recipe of the same runs that needs no other")
	f.BoolVar(&quick, "quick", false, "with --resolved: the recipe's smaller form")
	return c
}
