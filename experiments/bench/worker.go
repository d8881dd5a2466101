package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// worker is a peer's process. It answers a line on its standard input with a
// line of JSON, and stands still in between: threads that spin for a while after
// their work, as OpenMP's and OpenBLAS's do, would otherwise take the cores from
// whoever is next.
type worker struct {
	name     string
	cmd      *exec.Cmd
	in       io.WriteCloser
	lines    chan []byte // closed at the end of its output
	ended    chan struct{}
	failed   error // how the process ended; read after ended
	says     tail  // the end of its standard error
	patience time.Duration
}

// startWorker starts a process and reads its hello into hello. It is killed
// when ctx ends.
func startWorker(ctx context.Context, name string, cmd *exec.Cmd, patience time.Duration, hello any) (*worker, error) {
	w := &worker{name: name, cmd: cmd, lines: make(chan []byte, 1), ended: make(chan struct{}), patience: patience}
	detach(cmd)
	cmd.Stderr = &w.says
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in = in
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.ended)
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- bytes.Clone(s.Bytes())
		}
		w.failed = cmd.Wait()
	}()
	if err := w.hear(ctx, hello); err != nil {
		w.close()
		return nil, err
	}
	pause(cmd.Process)
	return w, nil
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

func (w *worker) hear(ctx context.Context, answer any) error {
	late := time.NewTimer(w.patience)
	defer late.Stop()
	select {
	case line, ok := <-w.lines:
		if !ok {
			return w.gone()
		}
		var refusal struct{ Error string }
		if err := json.Unmarshal(line, &refusal); err != nil {
			return fmt.Errorf("%s: answered %.200q, which is not JSON", w.name, line)
		}
		if refusal.Error != "" {
			return fmt.Errorf("%s: %s", w.name, refusal.Error)
		}
		return json.Unmarshal(line, answer)
	case <-late.C:
		return fmt.Errorf("%s: no answer within %v", w.name, w.patience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gone words the end of a process that was not told to end. One that only shut
// its output is ended.
func (w *worker) gone() error {
	late := time.AfterFunc(w.patience, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	<-w.ended
	how := "it ended early"
	if w.failed != nil {
		how = w.failed.Error()
	}
	return fmt.Errorf("%s: %s%s", w.name, how, w.says.String())
}

// close ends the process and waits until it is gone.
func (w *worker) close() {
	_ = w.cmd.Process.Kill() // an error says that it is gone
	for range w.lines {
	}
	<-w.ended
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailSize):]
	return len(p), nil
}

// String is the tail on lines of its own, empty if nothing was written.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := strings.TrimSpace(string(t.b)); s != "" {
		return "\n" + s
	}
	return ""
}
