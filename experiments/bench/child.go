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

// child is a process that answers lines on its standard input with lines of
// JSON.
type child struct {
	name     string
	cmd      *exec.Cmd
	in       io.WriteCloser
	lines    chan []byte // closed at the end of its output
	ended    chan struct{}
	failed   error // how it ended; read after ended
	says     tail  // the end of its standard error
	patience time.Duration
}

// startChild starts a process that ends with us.
func startChild(name string, cmd *exec.Cmd, patience time.Duration) (*child, error) {
	c := &child{name: name, cmd: cmd, lines: make(chan []byte, 1), ended: make(chan struct{}), patience: patience}
	detach(cmd)
	cmd.Stderr = &c.says
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(c.ended)
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- bytes.Clone(s.Bytes())
		}
		c.failed = cmd.Wait()
	}()
	return c, nil
}

// hear reads an answer.
func (c *child) hear(ctx context.Context, answer any) error {
	late := time.NewTimer(c.patience)
	defer late.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return c.gone()
		}
		var refusal struct{ Error string }
		if err := json.Unmarshal(line, &refusal); err != nil {
			return fmt.Errorf("%s: answered %.200q, which is not JSON", c.name, line)
		}
		if refusal.Error != "" {
			return fmt.Errorf("%s: %s", c.name, refusal.Error)
		}
		return json.Unmarshal(line, answer)
	case <-late.C:
		return fmt.Errorf("%s: no answer within %v%s", c.name, c.patience, c.says.String())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gone words the end of a process that was not told to end. One that only shut
// its output is ended.
func (c *child) gone() error {
	late := time.AfterFunc(c.patience, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	<-c.ended
	how := "it ended early"
	if c.failed != nil {
		how = c.failed.Error()
	}
	return fmt.Errorf("%s: %s%s", c.name, how, c.says.String())
}

// end kills the process and waits until it is gone.
func (c *child) end() {
	_ = c.cmd.Process.Kill() // an error says that it is gone
	for range c.lines {
	}
	<-c.ended
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
