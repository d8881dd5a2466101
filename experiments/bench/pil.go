package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed pilworker.py
var pilScript string

// PIL is an installed Python imaging library, which decodes with libjpeg-turbo.
type PIL struct {
	Python string // interpreter that can import it

	environ  []string
	patience time.Duration
}

const pilInstall = "apt-get install python3-pil"

// pilPatience is how long a worker may take to start or to read a block.
const pilPatience = time.Minute

// pilVariants are the ways it reads a picture: "pil" as torchvision does, "draft"
// with the JPEG decoded at 1/2, 1/4 or 1/8 where that is no smaller than the sample.
var pilVariants = []string{"pil", "draft"}

// FindPIL looks for a python that has PIL as FindTorch does for one with torch.
func FindPIL(ctx context.Context, python string, environ []string) (*PIL, error) {
	path, tried, err := findPython(ctx, python, "import PIL.Image", environ)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("no PIL: %s; install it (%s) or name a python that has it with --python", tried, pilInstall)
	}
	return &PIL{path, environ, pilPatience}, nil
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

// pilWorker is one variant at work.
type pilWorker struct {
	*worker
	hello struct {
		PIL   string `json:"pil"`
		Files int    `json:"files"`
	}
}

// start lists the pictures in a process of its own.
func (p *PIL) start(ctx context.Context, variant, dir string, size int) (*pilWorker, error) {
	ask, err := json.Marshal(map[string]any{"dir": dir, "size": size, "draft": variant == "draft"})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.Python, "-c", notHere+pilScript, string(ask))
	cmd.Env = p.environ
	w := &pilWorker{}
	if w.worker, err = startWorker(ctx, "PIL "+variant, cmd, p.patience, &w.hello); err != nil {
		return nil, err
	}
	return w, nil
}

// block implements contender.
func (w *pilWorker) block(ctx context.Context, n int) (seconds float64, err error) {
	var answer struct{ Seconds float64 }
	if err := w.ask(ctx, strconv.Itoa(n), &answer); err != nil {
		return 0, err
	}
	if !(answer.Seconds >= 0) {
		return 0, fmt.Errorf("%s: %d pictures took it %v seconds", w.name, n, answer.Seconds)
	}
	return answer.Seconds, nil
}
