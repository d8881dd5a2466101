package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/serve"
)

func (e *env) serveCommand() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "serve [RUNS…]",
		Short: "Running and finished runs in a browser, as they go",
		Long: `Serve shows the runs at or below folders (runs, if none is named) on a page of this
machine: curves as they grow, ranks, staleness, and a button that stops a run after
a checkpoint, as Ctrl-C would.

  gradlab serve
  gradlab serve runs/quickstart --listen 127.0.0.1:9000

It listens on loopback only; from elsewhere, forward the port (ssh -L). The address
it prints ends in a token, without which it tells nothing. Ctrl-C ends it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"runs"}
			}
			l, err := serve.Listen(listen)
			if err != nil {
				return usageError{err}
			}
			var token [16]byte
			if _, err := rand.Read(token[:]); err != nil {
				return err
			}
			secret := hex.EncodeToString(token[:])
			w := serve.NewWatch(args...)
			w.Refresh()
			ctx, end := experiments.UntilStopped(cmd.Context(), e.stop.Load)
			defer end()
			go w.Run(ctx, time.Second)
			fmt.Fprintf(e.out, "http://%s/#token=%s\n", l.Addr(), secret)
			if err := w.Trouble(); err != nil {
				fmt.Fprintln(e.err, "gradlab: left out:", err)
			}
			if err := serve.New(w, secret).Run(ctx, l); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:7788", "loopback address and port; port 0 takes a free one")
	return c
}
