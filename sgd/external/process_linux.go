package external

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// Version is that of the protocol.
const Version = 2

// largest is the longest message, in bytes.
const largest = 16 << 20

// grace is how long a process that closed its socket has to end by itself.
const grace = 10 * time.Second

// message is what travels, either way; see docs/external.md.
type message struct {
	Op string `json:"op"`
	// ID numbers what the engine asks for; what answers it has the same.
	ID      uint64   `json:"id,omitempty"`
	Version int      `json:"version,omitempty"`
	Seed    uint64   `json:"seed,omitempty"`
	First   uint64   `json:"first,omitempty"`
	N       int      `json:"n,omitempty"`
	Dim     int      `json:"dim,omitempty"`
	Size    int      `json:"size,omitempty"`
	Span    int      `json:"span"`
	Spans   []tensor `json:"spans,omitempty"`
	Loss    *float64 `json:"loss,omitempty"`
	Correct int      `json:"correct,omitempty"`
	Text    string   `json:"text,omitempty"`
	// Measures are what a program measures, the first by which runs are compared.
	Measures []sgd.Metric `json:"measures,omitempty"`
	// Metrics are means over the samples of an evaluation, by name.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Shape   []int              `json:"shape,omitempty"`
	Classes int                `json:"classes,omitempty"`
	Values  string             `json:"values,omitempty"` // what is exchanged, where it is not f32
	Takes   []string           `json:"takes,omitempty"`  // what a program can be sent that not every program can
	Mixed   bool               `json:"mixed,omitempty"`  // samples are of two classes each
	Side    int                `json:"side,omitempty"`   // of square pictures, where it is not that of Shape
}

// What a program may take beside batches as every program takes them.
const (
	takesMixed = "mixed" // samples of two classes each
	takesSides = "sides" // square pictures of other sides
)

type tensor struct {
	Name  string  `json:"name"`
	Rows  int     `json:"rows"`
	Cols  int     `json:"cols"`
	Role  string  `json:"role"`
	FLOPs float64 `json:"flops"`
	Shape []int   `json:"shape,omitempty"` // in a file of weights; none: rows by columns
}

// process is one process, its socket and the memory shared with it.
type process struct {
	opt    Options
	cmd    *exec.Cmd
	conn   net.Conn
	in     *bufio.Reader // of conn
	file   *os.File
	mem    []byte
	out    tail
	waits  patience      // of the engine
	id     uint64        // of what it was asked last
	mark   string        // in the environment of all that it starts
	gone   chan struct{} // closed once it has ended
	layout sgd.Layout
	flops  []float64
	files  []nn.Tensor // what its tensors are in a file of weights
	takes  []string
	counts []sgd.Metric // what it measures
}

// start starts a process with its socket as descriptor 3 and its memory as 4.
func start(opt Options) (*process, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("external: no socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "engine"), os.NewFile(uintptr(pair[1]), "source")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, fmt.Errorf("external: no socket: %w", err)
	}
	file, err := sealed()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("external: no shared memory: %w", err)
	}
	p := &process{opt: opt, conn: conn, in: bufio.NewReader(conn), waits: patience{conn, opt.Limit}, file: file, gone: make(chan struct{})}
	p.cmd = exec.Command(opt.Command[0], opt.Command[1:]...)
	p.cmd.Env = p.cmd.Environ()
	if dir, err := Python(); err == nil { // else who imports gradlab says that there is none
		p.cmd.Env = inPath(p.cmd.Env, dir)
	}
	p.mark = newMark()
	p.cmd.Env = append(p.cmd.Env, p.mark)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.ExtraFiles = []*os.File{theirs, file}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second // children of its own may hold its output
	if err := p.cmd.Start(); err != nil {
		conn.Close()
		file.Close()
		return nil, fmt.Errorf("external: command %q does not start: %w", strings.Join(opt.Command, " "), err)
	}
	go func() {
		_ = p.cmd.Wait()
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what it started
		killMarked(p.mark)                                    // and what of that has a group of its own
		close(p.gone)
	}()
	hurry.add(&p.waits)
	return p, nil
}

// inPath puts a folder before the others of PYTHONPATH.
func inPath(environ []string, dir string) []string {
	for _, v := range environ {
		if more, ok := strings.CutPrefix(v, "PYTHONPATH="); ok && more != "" {
			return append(environ, v[:len("PYTHONPATH=")]+dir+string(os.PathListSeparator)+more)
		}
	}
	return append(environ, "PYTHONPATH="+dir)
}

// end kills the process and what it started, so that who waits for it gets an error.
func (p *process) end() {
	select {
	case <-p.gone: // its number may be another's by now
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// kill ends the process and waits until it is gone. Its memory stays mapped, as a pass
// may read it: see unmap.
func (p *process) kill() {
	p.end()
	<-p.gone
	hurry.remove(&p.waits)
	p.conn.Close()
	p.file.Close()
}

// because ends the process, and wraps what went wrong with the last lines of all
// that it printed.
func (p *process) because(err error) error {
	p.end()
	<-p.gone
	if text := p.out.lines(); text != "" {
		return fmt.Errorf("external: %q: %w; its last output:\n%s", strings.Join(p.cmd.Args, " "), err, text)
	}
	return fmt.Errorf("external: %q: %w; it printed nothing", strings.Join(p.cmd.Args, " "), err)
}

// send asks for something, or tells of it.
func (p *process) send(m message) error {
	p.id++
	m.ID = p.id
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	hurry.again(&p.waits)
	if _, err := p.conn.Write(append(frame, body...)); err != nil {
		return p.lost(err)
	}
	return nil
}

// lost words an error of the socket.
func (p *process) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err := hurry.why(&p.waits); err != nil {
			return p.because(err)
		}
		return p.because(fmt.Errorf("it said nothing for %v", p.opt.Limit))
	}
	select {
	case <-p.gone: // it is on its way out: its exit status says more than that it was killed
	case <-time.After(grace):
		p.end()
		<-p.gone
	}
	return p.because(fmt.Errorf("it died or closed its socket (%v)", p.cmd.ProcessState))
}

// answer is the next message, which must be one of those.
func (p *process) answer(want ...string) (m message, err error) {
	hurry.again(&p.waits)
	var head [4]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return m, p.lost(err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > largest {
		return m, p.because(fmt.Errorf("garbage on its socket: a message of %d bytes, at most %d are allowed", n, largest))
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(p.in, body); err != nil {
		return m, p.lost(err)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, p.because(fmt.Errorf("garbage on its socket: %w", err))
	}
	if m.Op == "error" {
		return m, p.because(fmt.Errorf("it failed:\n%s", m.Text))
	}
	if m.Op == "layout" && m.Version != Version {
		return m, p.because(fmt.Errorf("it speaks version %d of the protocol; this is version %d", m.Version, Version))
	}
	if m.ID != p.id {
		return m, p.because(fmt.Errorf("it answers %q to message %d; the engine waits for the answer to message %d, each of which is to be answered once", m.Op, m.ID, p.id))
	}
	if !slices.Contains(want, m.Op) {
		return m, p.because(fmt.Errorf("it says %q; want %s", m.Op, strings.Join(want, " or ")))
	}
	return m, nil
}

// hello agrees on version and layout, and makes the memory.
func (p *process) hello() error {
	hello := message{Op: "hello", Version: Version, Shape: []int{p.opt.Shape.C, p.opt.Shape.H, p.opt.Shape.W}, Classes: p.opt.Classes}
	if p.half() {
		hello.Values = "bf16"
	}
	if err := p.send(hello); err != nil {
		return err
	}
	m, err := p.answer("layout")
	if err != nil {
		return err
	}
	switch {
	case m.Values == hello.Values:
	case m.Values == "": // it does not know the key
		return p.because(fmt.Errorf("it exchanges float32 only: leave values=%s out of external(...), or let it answer values in its layout, as the Python package gradlab does", hello.Values))
	default:
		return p.because(fmt.Errorf("its layout has values=%s; want %s", m.Values, cmp.Or(hello.Values, "none")))
	}
	if p.layout, p.flops, err = p.spans(m); err != nil {
		return err
	}
	for _, t := range m.Spans {
		values, shape := 1, t.Shape
		if len(shape) == 0 {
			shape = []int{t.Rows, t.Cols}
		}
		for _, n := range shape {
			values *= n
		}
		if values != t.Rows*t.Cols || slices.Min(shape) < 1 {
			return p.because(fmt.Errorf("tensor %q: shape %v is not of %d values", t.Name, shape, t.Rows*t.Cols))
		}
		p.files = append(p.files, nn.Tensor{Name: t.Name, Shape: shape})
	}
	if p.takes, p.counts = m.Takes, m.Measures; p.counts == nil {
		p.counts = []sgd.Metric{sgd.Accuracy, sgd.Loss}
	}
	if err := sgd.CheckMetrics(p.counts); err != nil {
		return p.because(fmt.Errorf("measures of its layout: %w", err))
	}
	return p.room(p.vectors())
}

// spans is the layout that a message has, and the operations of its tensors.
func (p *process) spans(m message) (l sgd.Layout, flops []float64, err error) {
	for i, t := range m.Spans {
		role := slices.Index([]string{"weight", "bias", "norm", "buffer", "embedding"}, t.Role)
		switch {
		case role < 0:
			return l, nil, p.because(fmt.Errorf("tensor %d, %q: role %q; want weight, embedding, bias, norm or buffer", i, t.Name, t.Role))
		case t.Name == "" || l.Find(t.Name) >= 0:
			return l, nil, p.because(fmt.Errorf("tensor %d: name %q is empty or taken", i, t.Name))
		case t.Rows < 1 || t.Cols < 1 || t.Rows > (1<<30)/t.Cols:
			return l, nil, p.because(fmt.Errorf("tensor %q: %d rows of %d; want at least 1 of each and at most 2³⁰ values", t.Name, t.Rows, t.Cols))
		case !(t.FLOPs >= 0):
			return l, nil, p.because(fmt.Errorf("tensor %q: flops %g; want 0 or more", t.Name, t.FLOPs))
		}
		l.Add(t.Name, sgd.Role(role), t.Rows, t.Cols)
		flops = append(flops, t.FLOPs)
	}
	if len(m.Spans) == 0 {
		return l, nil, p.because(errors.New("its layout has no tensors"))
	}
	return l, flops, nil
}

// at asks for the operations of the tensors on pictures of a side.
func (p *process) at(side int) (flops []float64, err error) {
	if !slices.Contains(p.takes, takesSides) {
		return nil, fmt.Errorf("%q does not say that it takes pictures of other sides (%q in takes of its layout: docs/external.md)", strings.Join(p.cmd.Args, " "), takesSides)
	}
	if err := p.send(message{Op: "side", Side: side}); err != nil {
		return nil, err
	}
	m, err := p.answer("layout")
	if err != nil {
		return nil, err
	}
	l, flops, err := p.spans(m)
	if err == nil && l.Hash() != p.layout.Hash() {
		err = p.because(fmt.Errorf("its tensors are others for pictures of side %d", side))
	}
	return flops, err
}

// fit checks lengths of vectors against the layout.
func (p *process) fit(vectors ...[]float32) error {
	for _, v := range vectors {
		if len(v) != p.layout.Size() {
			return fmt.Errorf("external: a vector of %d values; the layout has %d", len(v), p.layout.Size())
		}
	}
	return nil
}

// ask sends parameters and samples.
func (p *process) ask(op string, params []float32, b sgd.Batch) error {
	if b.N < 1 || len(b.Y) != b.N || len(b.X)%b.N != 0 {
		return fmt.Errorf("external: a batch of %d samples with %d inputs and %d labels", b.N, len(b.X), len(b.Y))
	}
	if len(b.Other) > 0 && !slices.Contains(p.takes, takesMixed) {
		return fmt.Errorf("external: samples are mixed (mixup, cutmix), and %q does not say that it takes such (%q in takes of its layout: docs/external.md); choose data without them", strings.Join(p.cmd.Args, " "), takesMixed)
	}
	if err := p.put(params, b); err != nil {
		return err
	}
	return p.send(message{Op: op, N: b.N, Dim: len(b.X) / b.N, First: b.First, Seed: b.Seed, Mixed: len(b.Other) > 0, Side: b.Side})
}

// tail keeps the end of what a process prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if n := len(t.text) - 4096; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(b), nil
}

// lines is at most the last 20 of them.
func (t *tail) lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Split(strings.TrimRight(string(t.text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-20):], "\n")
}
