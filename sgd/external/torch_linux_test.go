package external_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd/external"
)

// Copies from a GPU, of which a stand-in for torch.cuda plays the part: a gradient is
// ready when its event says so, and memory is pinned as long as it is mapped.
func TestCopiesFromGPU(t *testing.T) { withTorch(t, "testdata/gpu.py") }

// A program computes in as many threads as it says, also where OpenBLAS has its own.
func TestThreadsOfAProgram(t *testing.T) { withTorch(t, "testdata/threads.py") }

// The networks that the package brings begin as ours do, say what they refuse, and spread
// their processes over GPUs.
func TestResNetsOfThePackage(t *testing.T) { withTorch(t, "testdata/resnet.py") }

// withTorch runs a script that says "fine". Descriptor 4 is an empty file.
func withTorch(t *testing.T, script string) {
	if !patience.Long {
		t.Skip("imports PyTorch")
	}
	exe := program.Python(t, "torch")
	dir, err := external.Python()
	if err != nil {
		t.Fatal(err)
	}
	shared, err := os.Create(filepath.Join(t.TempDir(), "shared"))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	p := exec.CommandContext(t.Context(), exe, script)
	p.Env = append(os.Environ(), "PYTHONPATH="+dir)
	p.ExtraFiles = []*os.File{shared, shared}
	var warnings bytes.Buffer // of other versions of PyTorch
	p.Stderr = &warnings
	if out, err := p.Output(); err != nil || string(out) != "fine\n" {
		t.Errorf("%v: %s%s", err, out, &warnings)
	}
}
