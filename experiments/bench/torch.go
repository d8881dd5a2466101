package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/cpu"
)

//go:embed torchworker.py
var torchScript string

// Torch is an installed PyTorch.
type Torch struct {
	Python string // interpreter that can import it

	environ  []string // of the process, as os.Environ gives it
	openMP   string   // folder of OpenBLAS over OpenMP, "" if there is none
	patience time.Duration
}

const torchInstall = "apt-get install python3-torch libopenblas0-openmp"

// torchPatience is how long a worker may take to start or to compute a block.
const torchPatience = 3 * time.Minute

// compilePatience is how many times as long torch.compile may take: it runs a compiler of C++.
const compilePatience = 5

// FindTorch looks for a python that has torch: python alone if it is named,
// else python3 in the path, then Debian's. environ is os.Environ(). The error
// says what was tried and what to install.
func FindTorch(ctx context.Context, python string, environ []string) (*Torch, error) {
	path, tried, err := findPython(ctx, python, "import torch", environ)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("no PyTorch: %s; install it (%s) or name a python that has it with --python", tried, torchInstall)
	}
	return &Torch{path, environ, openMPBLAS(), torchPatience}, nil
}

// findPython looks for a python that can run code: python alone if it is named, else
// python3 in the path, then Debian's. Without one the path is empty and tried says
// why; the error is the context's.
func findPython(ctx context.Context, python, code string, environ []string) (path, tried string, err error) {
	candidates := []string{python}
	if python == "" {
		candidates = []string{"python3", "/usr/bin/python3"}
	}
	var why []string
	for _, c := range candidates {
		path, err := exec.LookPath(c)
		if err == nil {
			probe := exec.CommandContext(ctx, path, "-c", notHere+code)
			probe.Env = environ
			_, err = probe.Output()
		}
		var exit *exec.ExitError
		switch {
		case err == nil:
			return path, "", nil
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case errors.As(err, &exit):
			why = append(why, path+" cannot "+code+lastLine(exit.Stderr))
		default:
			why = append(why, err.Error())
		}
	}
	return "", strings.Join(why, "; "), nil
}

// notHere keeps python from importing what lies in the current folder.
const notHere = "import sys; sys.path = [p for p in sys.path if p]; "

// lastLine is where a python says what was wrong.
func lastLine(stderr []byte) string {
	s := strings.TrimSpace(string(stderr))
	if s = s[strings.LastIndexByte(s, '\n')+1:]; s != "" {
		return " (" + s + ")"
	}
	return ""
}

// openMPBLAS is where Debian keeps OpenBLAS over OpenMP.
func openMPBLAS() string {
	if found, _ := filepath.Glob("/usr/lib/*/openblas-openmp"); len(found) > 0 {
		return found[0]
	}
	return ""
}

// A Variant is a way to run the peer.
type Variant struct {
	Name         string   `json:"name"`
	Env          []string `json:"env"`
	ChannelsLast bool     `json:"channels_last"`
	Compiled     bool     `json:"compiled"` // by torch.compile
}

// Variants lists the ways to run torch: "stock" as it is installed; "tuned"
// with one pool of threads for everything (OpenBLAS over OpenMP), bound to the
// cores, a malloc that keeps what it freed instead of faulting it in again, and
// OpenBLAS's AVX-512 kernels where the processor has it, which OpenBLAS does not choose
// on one that it does not know by its model;
// "tuned-nhwc" with channels last in memory besides, for models that convolve; and the last
// of these compiled by torch.compile, which PyTorch 2 has.
func (t *Torch) Variants(c Case, threads int) []Variant {
	stock := []string{"OMP_NUM_THREADS=" + strconv.Itoa(threads)}
	tuned := append(stock[:1:1], "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592", "MALLOC_TOP_PAD_=67108864")
	if t.openMP != "" {
		tuned = append(tuned, "LD_LIBRARY_PATH="+t.openMP)
	}
	if threads > 1 {
		tuned = append(tuned, "OMP_PROC_BIND=true")
	}
	if cpu.X86.HasAVX512F && !slices.ContainsFunc(t.environ, func(e string) bool { return strings.HasPrefix(e, "OPENBLAS_CORETYPE=") }) {
		tuned = append(tuned, "OPENBLAS_CORETYPE=SkylakeX")
	}
	out := []Variant{{Name: "stock", Env: stock}, {Name: "tuned", Env: tuned}}
	if c.Model != "mlp" && !c.isText() {
		out = append(out, Variant{Name: "tuned-nhwc", Env: tuned, ChannelsLast: true})
	}
	last := out[len(out)-1]
	last.Name, last.Compiled = last.Name+"-compiled", true
	return append(out, last)
}

// torchWorker is one variant at work on a case.
type torchWorker struct {
	*worker
	hello  torchHello
	faults float64 // page faults a step, of the last block
}

type torchHello struct {
	Params  int     `json:"params"`
	Torch   string  `json:"torch"`
	Threads int     `json:"threads"`
	Loss    float64 `json:"loss"`
	Eager   bool    `json:"eager"` // there is no torch.compile
}

// errNotCompiling says that a PyTorch has no torch.compile.
var errNotCompiling = errors.New("this PyTorch has no torch.compile")

// start builds the case in a process of its own and takes one step. params is
// what our model has: another number means another model, and is an error.
func (t *Torch) start(ctx context.Context, v Variant, c Case, threads, params int) (*torchWorker, error) {
	ask, err := json.Marshal(map[string]any{
		"model": c.Model, "channels": c.Sample.C, "height": c.Sample.H, "width": c.Sample.W, "vocabulary": c.Sample.Vocabulary, "context": c.Sample.Labels(),
		"classes": c.Sample.Classes, "batch": c.Batch, "threads": threads, "channels_last": v.ChannelsLast, "compiled": v.Compiled,
		"autocast": c.Precision == "bfloat16",
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, t.Python, "-c", notHere+torchScript, string(ask))
	cmd.Env = append(t.environ[:len(t.environ):len(t.environ)], v.Env...)
	w := &torchWorker{}
	patience := t.patience
	if v.Compiled {
		patience *= compilePatience
	}
	if w.worker, err = startWorker(ctx, "torch "+v.Name, cmd, patience, &w.hello); err != nil {
		return nil, err
	}
	if w.hello.Eager {
		w.end()
		return nil, errNotCompiling
	}
	if w.hello.Params != params {
		w.end()
		return nil, fmt.Errorf("torch %s: its %s has %d parameters, ours %d: not the same model", v.Name, c.Name(), w.hello.Params, params)
	}
	if w.hello.Threads != threads {
		w.end()
		return nil, fmt.Errorf("torch %s: it uses %d threads, not %d", v.Name, w.hello.Threads, threads)
	}
	return w, nil
}

// block implements contender.
func (w *torchWorker) block(ctx context.Context, n int) (seconds float64, err error) {
	var answer struct{ Seconds, Faults float64 }
	if err := w.ask(ctx, strconv.Itoa(n), &answer); err != nil {
		return 0, err
	}
	if !(answer.Seconds > 0) {
		return 0, fmt.Errorf("%s: %d steps took it %v seconds", w.name, n, answer.Seconds)
	}
	w.faults = answer.Faults / float64(n)
	return answer.Seconds, nil
}
