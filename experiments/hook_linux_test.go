package experiments

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/virtual"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd/external"
	"github.com/gradlab/gradlab/sgd/train"
)

// library builds the C library.
func library(t *testing.T) string {
	t.Helper()
	if built := os.Getenv("GRADLAB_LIBRARY"); built != "" {
		return built
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler")
	}
	file := filepath.Join(t.TempDir(), "libgradlab.so")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-o", file, "github.com/gradlab/gradlab/compress/hook/clib")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// ranks are processes of PyTorch that have the library.
type ranks struct {
	exe, lib string
	env      []string
}

func torchRanks(t *testing.T) ranks {
	t.Helper()
	exe := program.Python(t, "torch")
	lib := library(t)
	python, err := external.Python()
	if err != nil {
		t.Fatal(err)
	}
	// Debian builds PyTorch 2 without libuv.
	return ranks{exe, lib, append(os.Environ(), "PYTHONPATH="+python, "GRADLAB_LIBRARY="+lib, "OMP_NUM_THREADS=1", "USE_LIBUV=0")}
}

// together starts so many ranks, with arguments and variables of their own, and waits.
func (p ranks) together(t *testing.T, world int, of func(rank int) (args, vars []string)) (outs []string, errs []error) {
	t.Helper()
	ranks, texts := make([]*exec.Cmd, world), make([]bytes.Buffer, world)
	for r := range ranks {
		args, vars := of(r)
		ranks[r] = exec.CommandContext(t.Context(), p.exe, args...)
		ranks[r].Env = append(slices.Clone(p.env), vars...)
		ranks[r].Stdout, ranks[r].Stderr = &texts[r], &texts[r]
		if err := ranks[r].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for r, p := range ranks {
		errs = append(errs, p.Wait())
		outs = append(outs, texts[r].String())
	}
	return outs, errs
}

// meet has so many ranks run a script, which is handed the file by which they meet, its rank
// and their number, and gives what rank 0 prints. The test is skipped where that is "older".
func (p ranks) meet(t *testing.T, world int, script string, args ...string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "meet")
	outs, errs := p.together(t, world, func(r int) ([]string, []string) {
		return append([]string{script, at, fmt.Sprint(r), fmt.Sprint(world)}, args...), nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(outs, "\n"))
	}
	if strings.HasPrefix(outs[0], "older") {
		t.Skip("PyTorch before 2.15")
	}
	return outs[0]
}

// Gradients that DistributedDataParallel exchanges under a codec's hook, over gloo, train
// to the same bits as mode reduce, and cost as many bytes. Half of the codecs are saved
// and restored before the last step.
func TestHookIsTheEngine(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("builds a library and starts processes")
	}
	model := computed(t, "torch", "testdata/external/prescribed.py")
	of := torchRanks(t)
	exe, lib, env, together := of.exe, of.lib, of.env, of.together
	launched := func(t *testing.T, args ...string) (lead string) { // as torchrun does
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		l.Close()
		outs, errs := together(t, 2, func(r int) ([]string, []string) {
			return args, []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "WORLD_SIZE=2", fmt.Sprint("RANK=", r), fmt.Sprint("LOCAL_RANK=", r)}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(outs, "\n"))
		}
		return outs[0]
	}
	t.Run("the page's script", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile("../docs/from-pytorch.md")
		if err != nil {
			t.Fatal(err)
		}
		script := regexp.MustCompile("(?s)```python\n([^`]*ddp_hook[^`]*)```").FindSubmatch(page)
		if script == nil {
			t.Fatal("the page has no script with a hook")
		}
		file := filepath.Join(t.TempDir(), "script.py")
		if err := os.WriteFile(file, script[1], 0o600); err != nil {
			t.Fatal(err)
		}
		out := launched(t, file)
		if !strings.Contains(out, "of 76840 bytes a step") {
			t.Error(out)
		}
		// On a virtual cluster, as it stands: what moves there is what the codec encodes,
		// and the backward pass waits for it.
		var there bytes.Buffer
		r, err := virtual.Run(t.Context(), virtual.Options{
			Command: []string{"env", "GRADLAB_LIBRARY=" + lib, exe, "-m", "gradlab.virtual", file},
			Ranks:   2, Stated: true, Speed: 1, Keys: []string{"network.bandwidth=1Mbps", "transport=ideal"}, Env: os.Environ(), Stdout: &there, Stderr: &there,
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, &there)
		}
		if there.String() != out {
			t.Errorf("on a virtual cluster: %s; want %s", &there, out)
		}
		var encoded, step float64
		if _, err := fmt.Sscan(out, &encoded); err != nil {
			t.Fatal(err)
		}
		if step = encoded * 8 / 1e6; r.Steps != 20 || r.Step < step || r.Step > 1.2*step {
			t.Errorf("%d steps of %.5f s; want 20 of little more than %.5f", r.Steps, r.Step, step)
		}
	})
	t.Run("no form on the device", func(t *testing.T) {
		t.Parallel()
		out := launched(t, "testdata/external/no_device.py")
		for _, want := range []string{"UserWarning: codec powersgd(rank=2) has no form in torch operations", "False",
			"no module of the model is sharded. Call fully_shard", "the state is of codec raw, not of powersgd", "of 3, this is rank", "give load_state_dict a list",
			"the state has a tensor fc.weight; the model has none of that name, but bias, weight", "want one of each rank",
			"weight is a weight of 4 by 8; what is kept under that name is of a weight of 8 by 8", "the gradient of weight is torch.float64"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		if strings.Count(out, "FullyShardedDataParallel has a hook of its own: gradlab.fsdp") != 2 {
			t.Errorf("of sharded gradients: %s", out)
		}
	})
	t.Run("comparison", func(t *testing.T) {
		t.Parallel()
		out := launched(t, "-m", "gradlab.compare_hooks", "--width=16", "--layers=2", "--rounds=1", "--steps=1", "--hook=torch powersgd rank=4", "--hook=torch fp16", "--hook=feedback(powersgd(rank=4))")
		for _, want := range []string{"torch powersgd rank=4", "torch fp16", "feedback(powersgd(rank=4))", "544 parameters, 2 processes, gloo"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in %s", want, out)
			}
		}
	})
	t.Run("one codec alone", func(t *testing.T) {
		t.Parallel()
		codecs := []string{"raw", "bf16", "topk(keep=0.05)", "qsgd(bits=4)", "sign", "randomk(keep=0.1)", "feedback(topk(keep=0.05))"}
		p := exec.CommandContext(t.Context(), exe, append([]string{"testdata/external/one_codec.py"}, codecs...)...)
		out := printed(t, p, env)
		lines := strings.Split(string(out), "\n")
		g := make([]float32, 600)
		for i := range g {
			g[i] = float32(i*37%101-50) / 16
		}
		of := compress.Block{Name: "w", Role: "weight", Rows: 20, Cols: 30, Rank: 1, World: 3, Peer: -1, Seed: 5}
		for i, spec := range codecs {
			f, err := compress.Parse(spec)
			if err != nil {
				t.Fatal(err)
			}
			c, err := f.New(of)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := c.Append(nil, g, compress.Step{N: 2, Seed: 5})
			if err != nil {
				t.Fatal(err)
			}
			back := slices.Repeat([]float32{1}, 600)
			if err := c.AddTo(back, 0.5, payload, compress.From{Rank: 1, Step: 2}); err != nil {
				t.Fatal(err)
			}
			claims, _ := compress.ClaimsOf(f, of)
			exact := map[bool]string{true: "True", false: "False"}[claims.Exact]
			if want := fmt.Sprintf("%x %d %s %d %s", sha256.Sum256(payload), len(payload), train.Hash(back), claims.Size, exact); lines[i] != want {
				t.Errorf("%s gives %s, want %s", spec, lines[i], want)
			}
		}
		for i, want := range []string{"tokp", "0 by 2 elements", "5 values, the tensor has 600", "float32 is wanted, not float64", "corrupt payload"} {
			if got := lines[len(codecs)+i]; !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
	t.Run("torch operations", func(t *testing.T) {
		t.Parallel()
		p := exec.CommandContext(t.Context(), exe, "testdata/external/device_codecs.py")
		out := printed(t, p, env)
		lines := strings.Split(string(out), "\n")
		var payloads, refused, differ, near int
		if n, _ := fmt.Sscanf(lines[0], "%d payloads, %d refused, %d differ", &payloads, &refused, &differ); n != 3 || payloads < 3000 || refused < 100 || differ != 0 {
			t.Errorf("%s", out)
		}
		if fmt.Sscan(lines[1], &near); near == 0 || lines[2] != "None None" {
			t.Errorf("%s", out)
		}
	})
	t.Run("sparse gradients, tensors without elements", func(t *testing.T) {
		t.Parallel()
		meet := filepath.Join(t.TempDir(), "meet")
		codecs := []string{"raw", "fp16", "feedback(topk(keep=1))", "feedback(powersgd(rank=2))", "device topk(keep=1)", "device sign"}
		outs, errs := together(t, 2, func(r int) ([]string, []string) {
			return append([]string{"testdata/external/sparse_and_empty.py", meet, fmt.Sprint(r)}, codecs...), nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(outs, "\n"))
		}
		for r, out := range outs {
			lines := strings.Split(out, "\n")
			for i, dense := range []int{108, 54, 108, 108, 108, 12} {
				// The other 27 parameters are encoded; rows of the sparse one are counted as they are.
				if want := fmt.Sprintf("%s %d 108 2", codecs[i], dense); lines[i] != want {
					t.Errorf("rank %d: %q; want %q", r, lines[i], want)
				}
			}
		}
	})
	t.Run("a NaN ends every rank", func(t *testing.T) {
		t.Parallel()
		meet := filepath.Join(t.TempDir(), "meet")
		outs, errs := together(t, 2, func(r int) ([]string, []string) {
			return []string{"testdata/external/nan_rank.py", meet, fmt.Sprint(r)}, nil
		})
		for r, want := range []string{" by peer", "rank 1, step 1, weight: gradient has NaN or Inf"} {
			if errs[r] == nil || !strings.Contains(outs[r], want) || strings.Contains(outs[r], "Unable to cast") {
				t.Errorf("rank %d: %v, %s", r, errs[r], outs[r])
			}
		}
	})
	for _, c := range []struct {
		world  int
		values string // whole: their sums are exact in any order
		codecs []string
	}{
		{2, "any", []string{
			"raw", "fp16", "bf16", "bf16(stochastic=true)", "feedback(topk(keep=0.1))", "qsgd(bits=4)", "feedback(powersgd(rank=2))", "powersgd(rank=4)",
			"intsum(bits=8)", "sign", "dgc(keep=0.05)", "ef21(topk(keep=0.05))", "cltk(keep=0.05)", "scatter(qsgd(bits=4))", "terngrad(shared=true)", "thc(bits=4)",
			"vote", "sketch(keep=0.05)", "adacomp(bin=50)", "byrole(feedback(topk(keep=0.05)),raw,raw)", "bysize(feedback(topk(keep=0.05)),raw,limit=100)",
			"accumulate(feedback(topk(keep=0.01)),every=2)", "entropy(qsgd(bits=4),coder=huff0)",
			"device bf16", "device feedback(topk(keep=0.1))", "device fp16", "device qsgd(bits=4)", "device feedback(sign)",
			"device feedback(bf16)", "device bf16(stochastic=true)", "device topk(keep=0.3,index=bitmap)", "device raw",
		}},
		{4, "whole", []string{"raw", "bf16", "fp16", "feedback(topk(keep=0.1))", "sign", "intsum(bits=8)", "scatter(qsgd(bits=4))", "vote", "onebit"}},
	} {
		t.Run(fmt.Sprint(c.world, " processes"), func(t *testing.T) {
			t.Parallel()
			meet := filepath.Join(t.TempDir(), "meet")
			outs, errs := together(t, c.world, func(r int) ([]string, []string) {
				return append([]string{"testdata/external/prescribed.py", meet, fmt.Sprint(r), fmt.Sprint(c.world), c.values}, c.codecs...), nil
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(outs, "\n"))
			}
			for i, codec := range c.codecs {
				run := mustExecute(t, strings.TrimSuffix(model, `")`)+" model "+c.values+`")`, "data=external(train=1000,test=10)", fmt.Sprint("workers=", c.world),
					"batch=2", "epochs=0", "steps=4", "mode=reduce", "optimizer=sgd", "schedule=constant(lr=1)", "net=sim", "device.codec=free", "seed=1", "codec="+strings.TrimPrefix(codec, "device "))
				bytes := uint64(0)
				for r := range outs {
					var sum string
					var total, last, wire, raw, steps uint64
					line := strings.Split(outs[r], "\n")[i]
					if n, err := fmt.Sscanf(strings.TrimPrefix(line, codec+" "), "%s %d %d %d %d %d", &sum, &total, &last, &wire, &raw, &steps); n != 6 {
						t.Fatalf("rank %d says %q: %v", r, line, err)
					}
					if sum != run.ParamsSHA256 {
						t.Errorf("%s: rank %d has parameters %s, the run %s", codec, r, sum, run.ParamsSHA256)
					}
					if steps != 4 || raw != 4*1001 || wire < last {
						t.Errorf("%s: %s", codec, line)
					}
					bytes += total
				}
				if c.world == 2 && bytes != run.BytesUp {
					t.Errorf("%s: %d bytes, in the run %d", codec, bytes, run.BytesUp)
				}
			}
		})
	}
}

// printed is what a program prints, its warnings apart.
func printed(t *testing.T, p *exec.Cmd, env []string) []byte {
	t.Helper()
	var warnings bytes.Buffer
	p.Env, p.Stderr = env, &warnings
	out, err := p.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &warnings)
	}
	return out
}
