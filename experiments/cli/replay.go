package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/ask"
)

func (e *env) replayCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay RUN",
		Short: "Make an asynchronous run again, in the order in which it happened",
		Long: `Replay takes the order log of a finished run (observe=order_log), wherever the run
took place, and makes it again on the virtual cluster: gradients reach every
server in the same order, so the parameters come out with the same bits. The exit
code is 1 if they do not.

  gradlab run gcp-mnist net=local observe=order_log
  gradlab replay runs/gcp-mnist/…`,
		Args: runAnd("", 0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			r, err := ask.Replay(cmd.Context(), run.Folder, e.places())
			if err != nil {
				return fmt.Errorf("replay of %s: %w", args[0], err)
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				if err := enc.Encode(r); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(e.out, "%d steps\nthe run's parameters: %s\nthe replay's:         %s\n", r.Steps, r.Was, r.Is)
			}
			if !r.Equal {
				return errors.New("the replay ended with other bits")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return c
}
