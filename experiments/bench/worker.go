package bench

import (
	"context"
	"io"
	"os/exec"
	"time"
)

// worker is a peer's process that stands still between its tasks: threads that
// spin for a while after their work, as OpenMP's and OpenBLAS's do, would
// otherwise take the cores from whoever is next.
type worker struct{ *child }

// startWorker starts a process and reads its hello into hello. It is killed
// when ctx ends.
func startWorker(ctx context.Context, name string, cmd *exec.Cmd, patience time.Duration, hello any) (*worker, error) {
	c, err := startChild(name, cmd, patience)
	if err != nil {
		return nil, err
	}
	if err := c.hear(ctx, hello); err != nil {
		c.end()
		return nil, err
	}
	pause(cmd.Process)
	return &worker{c}, nil
}

// ask sends a line and reads the answer into answer.
func (w *worker) ask(ctx context.Context, line string, answer any) error {
	resume(w.cmd.Process)
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		return w.gone()
	}
	if err := w.hear(ctx, answer); err != nil {
		return err
	}
	pause(w.cmd.Process)
	return nil
}
