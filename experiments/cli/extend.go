package cli

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
)

func (e *env) extendCommand() *cobra.Command {
	var asJSON, quiet bool
	var said func() (experiments.About, error)
	c := &cobra.Command{
		Use:   "extend RUN steps=N|epochs=N|until=end|target=X …",
		Short: "Make a finished run longer",
		Long: `Extend goes on with a finished run from its last checkpoint, in a folder of its own
beside the first one, which stays as it is. On sim, and wherever workers are in
step, the bits are those of a run that was that long from the beginning.

  gradlab extend runs/quickstart/… steps=2000

Synchronous runs keep a checkpoint just before their end. Others need
checkpoint_every. A schedule whose rates depend on the planned steps (cosine, poly)
is refused: its longer run is another one from the first step on. If the extension
is stopped, the same command goes on with it.`,
		Args: runAnd(" and where it is to end, such as steps=2000", 1, 1000),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			about, err := said()
			if err != nil {
				return err
			}
			opt := experiments.Options{Places: e.places(), Args: e.args, About: about, Stopping: e.stop.Load, Join: experiments.Itself(os.Getenv, e.places())}
			if !quiet {
				opt.Display = progress.New(e.screen)
				defer opt.Display.Close()
			}
			r, err := experiments.Extend(cmd.Context(), run.Folder, args[1:], opt)
			if opt.Display != nil {
				opt.Display.Close()
			}
			if r == nil {
				return err
			}
			if asJSON {
				return errors.Join(json.NewEncoder(e.out).Encode(r), err)
			}
			if !quiet {
				made, bad := store.Made([]*experiments.Result{r})
				if bad == nil {
					bad = store.Summary(e.out, "box", made)
				}
				err = errors.Join(bad, err)
			}
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	f.BoolVar(&quiet, "quiet", false, "no progress, no table")
	said = aboutFlags(f)
	return c
}
