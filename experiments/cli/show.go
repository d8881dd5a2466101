package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/launch"
	"github.com/gradlab/gradlab/experiments/store"
)

func (e *env) showCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "One run: configuration, curve, result",
		Args:  runAnd("", 0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			rec, err := experiments.ReadRecord(r.Folder)
			if err != nil {
				return usageError{err}
			}
			rec.Status.State, rec.Status.Step = r.State, r.Step // nobody wrote that it was lost
			if n := len(rec.Evals); n > 0 {
				rec.Status.Step = max(r.Step, rec.Evals[n-1].Step)
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				return enc.Encode(rec)
			}
			if err := rec.Write(e.out); err != nil {
				return err
			}
			if command := e.goOn(r); command != "" {
				fmt.Fprintf(e.out, "\nto go on with it, in the folder where it was begun:\n  %s\n", command)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return c
}

// goOn is the command that goes on with a run which ended before it was done, as the one
// that began it was recorded; empty for others. Commands without --resume go on by themselves.
func (e *env) goOn(r *store.Run) string {
	args, _ := r.Env["args"].([]any)
	if r.State == store.Done || r.State == store.Running || len(args) == 0 {
		return ""
	}
	words := []string{"gradlab"}
	for _, a := range args {
		words = append(words, launch.Quote(fmt.Sprint(a)))
	}
	c, _, err := e.root().Find(words[1:2])
	if err == nil && c.Flags().Lookup("resume") != nil && !slices.Contains(words, "--resume") {
		words = append(words, "--resume")
	}
	return strings.Join(words, " ")
}

// notAFolder refuses the folder of a run in place of a recipe, and says what may have been meant.
func (e *env) notAFolder(arg string) error {
	r, err := store.Open(arg)
	if err != nil {
		return nil
	}
	said := fmt.Sprintf("%s is the folder of a run (%s), not a recipe", arg, r.State)
	if command := e.goOn(r); command != "" {
		said += "; to go on with it: " + command
	}
	return fmt.Errorf("%s; to make it again: gradlab run %s", said, launch.Quote(filepath.Join(arg, "config.yaml")))
}
