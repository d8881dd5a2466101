//go:build ladder

package ladder

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

const module = "github.com/gradlab/gradlab"

// A rung is a kind of processor: how programs for it are built and started.
type rung struct {
	name, arch string
	emulators  []string // any of them will do; none: this machine runs it
	args       []string
}

var rungs = []rung{
	{"Haswell, AVX2", "amd64", []string{"qemu-x86_64-static", "qemu-x86_64"}, []string{"-cpu", "Haswell"}},
	{"Nehalem, no AVX", "amd64", []string{"qemu-x86_64-static", "qemu-x86_64"}, []string{"-cpu", "Nehalem"}},
	{"arm64, NEON", "arm64", []string{"qemu-aarch64-static", "qemu-aarch64"}, nil},
}

// others are rungs without kernels, on which the golden runs alone are tried.
var others []rung

// each runs f on some rungs, with what starts a program there.
func each(t *testing.T, rungs []rung, f func(t *testing.T, r rung, start []string)) {
	for _, r := range rungs {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if len(r.emulators) == 0 {
				f(t, r, nil)
				return
			}
			for _, e := range r.emulators {
				if path, err := exec.LookPath(e); err == nil {
					f(t, r, append([]string{path}, r.args...))
					return
				}
			}
			t.Skipf("no %s: %s is not tried (apt-get install qemu-user-static)", r.emulators[0], r.name)
		})
	}
}

// goTool runs the go command for an architecture, and returns what it printed.
func goTool(arch string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("GOARCH=%s go %s: %w\n%s", arch, strings.Join(args, " "), err, out[max(0, len(out)-4000):])
	}
	return string(out), nil
}

// arm is gradlab for arm64, and its assembly as the compiler printed it.
var arm = sync.OnceValues(func() (a struct{ path, assembly string }, err error) {
	a.path = program.Gradlab + ".arm64"
	a.assembly, err = goTool("arm64", "build", "-ldflags=-s -w", "-gcflags="+module+"/...=-S", "-o", a.path, module)
	return a, err
})

// gradlab is the command line that starts the program on a rung.
func (r rung) gradlab(t *testing.T, start []string) []string {
	t.Helper()
	path, err := program.Gradlab, error(nil)
	switch r.arch {
	case "amd64":
	case "arm64":
		var a struct{ path, assembly string }
		a, err = arm()
		path = a.path
	default:
		path += "." + r.arch
		_, err = goTool(r.arch, "build", "-ldflags=-s -w", "-o", path, module)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(start), path)
}

// Small runs end with the bits of the golden file on every rung.
func TestBits(t *testing.T) {
	t.Parallel()
	each(t, append(rungs, others...), func(t *testing.T, r rung, start []string) { compare(t, bits(t, r.gradlab(t, start)), kept(t)) })
}

// listed is the spec text of all parts of a kind.
func listed(t *testing.T, kind string) (specs []string) {
	t.Helper()
	out, err := exec.Command(program.Gradlab, "list", kind, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string][]struct{ Spec string }
	if err := json.Unmarshal(out, &lists); err != nil {
		t.Fatal(err)
	}
	for _, p := range lists[kind] {
		specs = append(specs, p.Spec)
	}
	return specs
}

// large is whether models are tried that an emulator takes half a minute to draw.
var large = false

// most is how many parameters a model has at most if not.
const most = 4_000_000

// parts is a recipe of two steps of every codec, mode and model.
func parts(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`workers: 2
batch: 4
steps: 2
eval_every: 2
data: "synthetic(dim=64,classes=4,n=64,test=16)"
model: mlp(hidden=[24])
optimizer: sgd
schedule: constant(lr=0.001)
mode: reduce
net: sim
device: {flops: 2e10, codec: free}
network: {bandwidth: 1Gbps, latency: 50us}
runs:
`)
	add := func(name, keys string, args ...any) {
		fmt.Fprintf(&b, "  - {name: %q, %s}\n", name, fmt.Sprintf(keys, args...))
	}
	for _, c := range listed(t, "codecs") {
		add(c, "codec: %q", c)
	}
	for _, m := range listed(t, "modes") {
		switch m {
		case "hogwild": // its workers race
		case "downpour":
			add(m, "mode: %q, policy: asp", m)
		default:
			add(m, "mode: %q", m)
		}
	}
	text := filepath.Join(t.TempDir(), "t.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("to be, or not to be: that is the question. ", 8)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, m := range listed(t, "models") {
		if strings.HasPrefix(m, "external") { // a program computes it
			continue
		}
		for _, small := range []string{"airbench94(widths=[8,16,16])", "wrn(depth=10,width=1)", "vgg16(head=small)"} {
			if name, _, _ := strings.Cut(small, "("); m == name {
				m = small
			}
		}
		side, size := least(t, m)
		if size > most {
			if !large {
				t.Logf("%s, %d parameters: tried with the tag long", m, size)
				continue
			}
			side = max(side, 32) // where batch norms have something to average
		}
		if side == 0 {
			add(m, `model: %q, workers: 1, batch: 2, data: "text(path=%s,context=12)"`, m, text)
			continue
		}
		add(m, `model: %q, workers: 1, batch: 2, data: "synthetic(dim=%d,side=%d,classes=4,n=4,test=2)"`, m, 3*side*side, side)
	}
	path := filepath.Join(t.TempDir(), "parts.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// least is the least side of pictures that a model takes, 0 of one that takes texts, and how
// many parameters it then has.
func least(t *testing.T, spec string) (side, parameters int) {
	t.Helper()
	var err error
	for side = 8; side <= 256; side++ {
		var m sgd.Model
		if m, err = nn.Models.MustParse(spec).New(sgd.Sample{Shape: sgd.Shape{C: 3, H: side, W: side}, Classes: 4}); err == nil {
			return side, m.Layout().Size()
		}
	}
	m, of := sgd.Model(nil), sgd.Sample{Shape: sgd.Shape{C: 1, H: 12, W: 1}, Vocabulary: 20, Classes: 20, Targets: 12}
	if m, err = nn.Models.MustParse(spec).New(of); err == nil {
		return 0, m.Layout().Size()
	}
	t.Fatalf("%s takes no pictures of up to 256 pixels and no texts: %v", spec, err)
	return 0, 0
}

// Two steps of every codec, mode and model end on every rung with the same parameters.
func TestParts(t *testing.T) {
	t.Parallel()
	recipe := parts(t)
	lines := func(gradlab []string) string {
		var out strings.Builder
		for _, r := range train(t, gradlab, recipe) {
			fmt.Fprintln(&out, r)
		}
		return out.String()
	}
	want := lines([]string{program.Gradlab})
	t.Run("rungs", func(t *testing.T) {
		each(t, rungs, func(t *testing.T, r rung, start []string) { compare(t, lines(r.gradlab(t, start)), want) })
	})
}

// Kernels are their twins on every rung.
func TestKernels(t *testing.T) {
	t.Parallel()
	packages := []string{"f32", "codec", "conv", "pool", "portable"}
	dir := t.TempDir()
	t.Run("rungs", func(t *testing.T) {
		each(t, rungs, func(t *testing.T, r rung, start []string) {
			for _, p := range packages {
				binary := filepath.Join(dir, p+"."+strings.ReplaceAll(r.name, " ", ""))
				if _, err := goTool(r.arch, "test", "-c", "-o", binary, module+"/internal/"+p); err != nil {
					t.Fatal(err)
				}
				args := []string{binary, "-test.run", `Twins|WhatTheySay|AsSpecified|SameBits|FMA|Accurate|Madd|Rounding|TripleLoop`}
				if p != "portable" {
					args = append(args, "-rapid.checks=10", "-rapid.nofailfile")
				}
				cmd := exec.Command(start[0], append(start[1:len(start):len(start)], args...)...)
				cmd.Dir = filepath.Join("..", p)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", p, err, out)
				}
			}
		})
	})
}

// Nothing that a run computes is left to the compiler to fuse: what package experiments
// needs has no fused instruction but for math.FMA, and where package portable asks for it.
func TestNothingIsFused(t *testing.T) {
	t.Parallel()
	a, err := arm()
	if err != nil {
		t.Fatal(err)
	}
	list, err := goTool("arm64", "list", "-deps", "-f", "{{.Dir}}", module+"/experiments")
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]bool{}
	for dir := range strings.Lines(list) {
		dirs[strings.TrimSpace(dir)] = true
	}
	fused := regexp.MustCompile(`\d \((\S+\.go):(\d+)\)\tFN?M(?:ADD|SUB)[SD]\t`)
	lines := map[string][]string{}
	seen, asked := map[string]bool{}, 0
	for _, m := range fused.FindAllStringSubmatch(a.assembly, -1) {
		path, at := m[1], m[1]+":"+m[2]
		if !dirs[filepath.Dir(path)] || seen[at] || strings.HasSuffix(filepath.Dir(path), "test") {
			continue
		}
		seen[at] = true
		if lines[path] == nil {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines[path] = strings.Split(string(b), "\n")
		}
		var n int
		fmt.Sscan(m[2], &n)
		line := lines[path][n-1]
		if strings.Contains(line, "math.FMA(") || filepath.Base(path) == "fma_arm64.go" {
			asked++
			continue
		}
		t.Errorf("%s is fused: write float64(x*y) around the product\n%s", at, strings.TrimSpace(line))
	}
	if asked == 0 {
		t.Error("not even portable.FMA is fused: is this the compiler's assembly?")
	}
}
