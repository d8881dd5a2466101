// Package progress shows long work while it goes on: as bars on a terminal, as
// plain lines elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"golang.org/x/term"
)

// Display shows runs and downloads. A nil *Display shows nothing. Methods may be
// called from any goroutine.
type Display struct {
	w         io.Writer
	style     style
	every     time.Duration    // between plain lines of a run
	now       func() time.Time // time.Now, but for tests
	nameWidth atomic.Int32     // of the longest name on the terminal

	mu   sync.Mutex
	bars *mpb.Progress   // nil: plain lines
	open map[*row]bool   // rows on the terminal
	once map[string]bool // lines of Once that were written

	downloading sync.Mutex
	transfers   map[string]*transfer // by file or work; nil where the file is whole
}

type style int

const (
	automatic style = iota
	plain
	terminal
	quiet
)

// Option changes how a Display shows things.
type Option func(*Display)

// Plain writes plain lines even to a terminal.
func Plain(d *Display) { d.style = plain }

// Terminal draws bars even where the writer does not look like a terminal.
func Terminal(d *Display) { d.style = terminal }

// Quiet shows nothing.
func Quiet(d *Display) { d.style = quiet }

// Every sets the time between plain lines of a run, 5 seconds by default. After
// an evaluation the next line comes as soon as a fifth of it has passed.
func Every(t time.Duration) Option { return func(d *Display) { d.every = t } }

// New shows things on w, as bars if it is a terminal. Close ends that.
func New(w io.Writer, opts ...Option) *Display {
	d := &Display{w: w, every: 5 * time.Second, now: time.Now, open: map[*row]bool{}, once: map[string]bool{}, transfers: map[string]*transfer{}}
	for _, o := range opts {
		o(d)
	}
	bars := []mpb.ContainerOption{mpb.WithOutput(w), mpb.WithRefreshRate(200 * time.Millisecond)}
	switch {
	case w == nil:
		d.style = quiet
	case d.style == terminal:
		d.bars = mpb.New(append(bars, mpb.WithAutoRefresh(), mpb.WithWidth(terminalWidth))...)
	case d.style == automatic && isTerminal(w):
		d.bars = mpb.New(bars...)
	}
	return d
}

// terminalWidth is that of terminals which do not tell.
const terminalWidth = 120

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return err == nil && width > 0
}

func (d *Display) silent() bool { return d == nil || d.style == quiet }

// drawn reports whether rows are drawn, rather than told as lines.
func (d *Display) drawn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bars != nil
}

// Logf writes a line, above the bars if there are any.
func (d *Display) Logf(format string, args ...any) {
	if d.silent() {
		return
	}
	d.line(fmt.Sprintf(format, args...))
}

// Once is Logf of a line that several runs have in common: it is written the first time.
func (d *Display) Once(format string, args ...any) {
	if d.silent() {
		return
	}
	line := fmt.Sprintf(format, args...)
	d.mu.Lock()
	written := d.once[line]
	d.once[line] = true
	d.mu.Unlock()
	if !written {
		d.line(line)
	}
}

// line writes a line of text.
//
// Bars are drawn by goroutines of their own that ask rows for their state: no
// lock that these take may be held here.
func (d *Display) line(s string) {
	b := []byte(clean(s) + "\n")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bars != nil {
		if _, err := d.bars.Write(b); err == nil {
			return
		}
		d.bars.Shutdown() // the terminal went away
		d.bars = nil
	}
	_, _ = d.w.Write(b) // nobody to tell
}

// Close takes the bars away. What is shown later comes as plain lines.
func (d *Display) Close() {
	if d.silent() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bars == nil {
		return
	}
	for r := range d.open {
		r.bar.Abort(true)
	}
	clear(d.open)
	d.bars.Wait()
	d.bars = nil
}
