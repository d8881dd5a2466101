package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/shm"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

func TestRunJSON(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	p := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "seed=1,2", "--json", "--out", out)
	program.Plain(t, p)
	lines := strings.Split(strings.TrimSpace(p.Out.String()), "\n")
	if len(lines) < 2 {
		t.Fatal(p.Says())
	}
	for _, line := range lines[len(lines)-2:] {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, key := range []string{"accuracy", "loss", "steps", "samples", "wall_seconds", "virtual_seconds", "bytes_up", "bytes_down",
			"staleness_mean", "staleness_max", "params_sha256", "config", "degraded"} {
			if _, ok := r[key]; !ok {
				t.Errorf("no %q in %s", key, line)
			}
		}
		if r["steps"] != 10.0 || r["samples"] != 160.0 || r["degraded"] != false || r["config"].(map[string]any)["workers"] != 2.0 {
			t.Errorf("%s", line)
		}
	}
	if n := len(p.Results()); n != 2 {
		t.Errorf("%d results of 2 runs", n)
	}
}

func TestRunTable(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	p := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "codec=raw,bf16", "--out", out)
	program.Plain(t, p)
	if s := p.Out.String(); !strings.Contains(s, "raw") || !strings.Contains(s, "bf16") || !strings.Contains(s, "accuracy") {
		t.Error(p.Says())
	}
	if p := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "--quiet", "--out", out); p.Out.String() != "" || p.Err.String() != "" {
		t.Errorf("not quiet: %s", p.Says())
	}
}

// A run's own configuration file runs again, to the same bits.
func TestRunConfigAgain(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	a := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "--json", "--quiet", "--out", out).Result()
	b := program.Finish(t, 0, "run", filepath.Join(a.Folder, "config.yaml"), "--json", "--quiet", "--out", out).Result()
	if a.SHA256 != b.SHA256 || a.Folder == b.Folder || strings.TrimPrefix(filepath.Base(a.Folder), "run-") != strings.TrimPrefix(filepath.Base(b.Folder), "run-") {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func TestResumeFinished(t *testing.T) {
	t.Parallel()
	out, file := t.TempDir(), program.Recipe(t, program.Quick)
	a := program.Finish(t, 0, "run", file, "--json", "--out", out)
	b := program.Finish(t, 0, "run", file, "--json", "--out", out, "--resume")
	if lines := func(p *program.Program) string {
		s := strings.TrimSpace(p.Out.String())
		return s[strings.LastIndex(s, "\n")+1:]
	}; lines(a) != lines(b) {
		t.Errorf("%s\n%s", lines(a), lines(b))
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	r := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "--json", "--quiet", "--out", out).Result()
	p := program.Finish(t, 0, "show", r.Folder)
	program.Plain(t, p)
	if !strings.Contains(p.Out.String(), r.SHA256) || !strings.Contains(p.Out.String(), "accuracy") {
		t.Error(p.Says())
	}
	var rec map[string]any
	p = program.Finish(t, 0, "show", r.Folder, "--json")
	if err := json.Unmarshal([]byte(p.Out.String()), &rec); err != nil || rec["result"] == nil {
		t.Errorf("%v\n%s", err, p.Says())
	}
	if p := program.Finish(t, 0, "show", out); !strings.Contains(p.Out.String(), r.SHA256) {
		t.Errorf("the only run in a folder is not shown\n%s", p.Says())
	}
	program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "seed=2", "--quiet", "--out", out)
	if p := program.Finish(t, 2, "show", out); !strings.Contains(p.Err.String(), "names 2 runs, such as "+r.Folder) {
		t.Errorf("the run folders below are not named\n%s", p.Says())
	}
	if p := program.Finish(t, 2, "whatif", "network.bandwidth=1Gbps", "workers=2"); !strings.Contains(p.Err.String(), "is no run") {
		t.Error(p.Says())
	}
	program.Finish(t, 2, "show", t.TempDir())
	program.Finish(t, 2, "show")
}

// A run that was lost says how it goes on, and so does the folder of a run where a recipe is wanted.
func TestALostRunSaysHowItGoesOn(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "some runs")
	recipe := program.Recipe(t, program.Quick)
	r := program.Finish(t, 0, "run", recipe, "seed=3", "--json", "--quiet", "--out", out).Result()
	if p := program.Finish(t, 0, "show", r.Folder); strings.Contains(p.Out.String(), "--resume") {
		t.Errorf("a finished run is to go on\n%s", p.Says())
	}
	status := filepath.Join(r.Folder, "status.json")
	b, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	running := strings.Replace(string(b), `"done"`, `"running"`, 1)
	if err := errors.Join(os.WriteFile(status, []byte(running), 0o600), os.Remove(filepath.Join(r.Folder, "result.json"))); err != nil || running == string(b) {
		t.Fatalf("%v\n%s", err, b)
	}
	want := fmt.Sprintf("gradlab run %s seed=3 --json --quiet --out '%s' --resume", recipe, out)
	if p := program.Finish(t, 0, "show", r.Folder); !strings.Contains(p.Out.String(), ": lost at step") || !strings.Contains(p.Out.String(), want) {
		t.Errorf("want %s\n%s", want, p.Says())
	}
	if p := program.Finish(t, 2, "run", r.Folder, "--resume"); !strings.Contains(p.Err.String(), want) || !strings.Contains(p.Err.String(), "config.yaml") {
		t.Errorf("want %s\n%s", want, p.Says())
	}
	program.Finish(t, 0, "run", recipe, "seed=3", "--json", "--quiet", "--out", out, "--resume")
	if p := program.Finish(t, 0, "show", r.Folder); !strings.Contains(p.Out.String(), r.SHA256) {
		t.Errorf("it did not go on in the same folder\n%s", p.Says())
	}
}

func TestListAndData(t *testing.T) {
	t.Parallel()
	p := program.Finish(t, 0, "list")
	program.Plain(t, p)
	for _, word := range []string{"codecs", "optimizers", "policies", "recipes", "keys", "feedback", "quickstart", "eval_every"} {
		if !strings.Contains(p.Out.String(), word) {
			t.Errorf("list does not tell %q", word)
		}
	}
	var codecs map[string][]struct{ Name, About, Spec string }
	if err := json.Unmarshal([]byte(program.Finish(t, 0, "list", "codecs", "--json").Out.String()), &codecs); err != nil {
		t.Fatal(err)
	}
	if len(codecs) != 1 || len(codecs["codecs"]) < 5 || codecs["codecs"][0].Name == "" || codecs["codecs"][0].Spec == "" {
		t.Errorf("%v", codecs)
	}
	p = program.Finish(t, 0, "data", "--cache-dir", t.TempDir(), "--data-dir", t.TempDir())
	for _, word := range []string{"digits", "built in", "gradlab data mnist --fetch downloads 11.6 MB", "gradlab data cifar100 --fetch downloads it"} {
		if !strings.Contains(p.Out.String(), word) {
			t.Errorf("no %q\n%s", word, p.Says())
		}
	}
	if p := program.Finish(t, 0, "data", "digits"); p.Out.String() != "digits: built in\n" {
		t.Error(p.Says())
	}
	// What somebody put into the data folder is not fetched again.
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "mnist"), 0o755); err != nil {
		t.Fatal(err)
	}
	images := append([]byte{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28}, make([]byte, 28*28)...)
	for name, body := range map[string][]byte{"images-idx3-ubyte": images, "labels-idx1-ubyte": {0, 0, 8, 1, 0, 0, 0, 1, 7}} {
		for _, part := range []string{"train-", "t10k-"} {
			if err := os.WriteFile(filepath.Join(dir, "mnist", part+name), body, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if p := program.Finish(t, 0, "data", "mnist", "--fetch", "--data-dir", dir, "--cache-dir", t.TempDir()); !strings.Contains(p.Out.String(), "data folder "+dir) {
		t.Error(p.Says())
	}
	// Read, it turns out not to be MNIST.
	if p := program.Finish(t, 1, "data", "mnist", "--check", "--data-dir", dir); !strings.Contains(p.Out.String(), "2 samples read") || !strings.Contains(p.Err.String(), "4 files: not the official content") {
		t.Error(p.Says())
	}
	pictures := t.TempDir()
	for _, part := range []string{"train", "val"} {
		at := filepath.Join(pictures, "imagenette", part, "n1")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, part+".JPEG"), []byte("\xff\xd8\xffgone"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if p := program.Finish(t, 1, "data", "imagenette", "--check", "--data-dir", pictures); !strings.Contains(p.Out.String(), "published: 9469") ||
		!strings.Contains(p.Out.String(), "  val/n1/val.JPEG\n") || !strings.Contains(p.Out.String(), "unreadable=") || !strings.Contains(p.Err.String(), "4 of the things checked are wrong") {
		t.Errorf("%s%s", p.Out.String(), p.Err.String())
	}
	if err := os.WriteFile(filepath.Join(pictures, "t.csv"), []byte("y,a\n0,1.5\n1,2\n0,3\n1,4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p := program.Finish(t, 0, "data", "csv(path=t.csv,label=y)", "--check", "--data-dir", pictures); !strings.Contains(p.Out.String(), "line 1 holds the names of columns") ||
		!strings.Contains(p.Out.String(), "samples drawn:\n  training sample ") || !strings.Contains(p.Out.String(), "  0: 1 + 1\n") {
		t.Errorf("%s%s", p.Out.String(), p.Err.String())
	}
	if p := program.Finish(t, 0, "data", "csv(path=t.csv,label=y)", "--data-dir", pictures); !strings.Contains(p.Out.String(), "  numbers a sample  1  1x1x1: a\n") ||
		!strings.Contains(p.Out.String(), "  0: 1 + 1\n") || strings.Contains(p.Out.String(), "samples drawn") || strings.Contains(p.Out.String(), "nothing is wrong") {
		t.Errorf("%s%s", p.Out.String(), p.Err.String())
	}
	if p := program.Finish(t, 1, "data", "csv(path=t.csv)", "--data-dir", pictures); !strings.Contains(p.Err.String(), "fewest first: 1 (y): 2, 2 (a): 4") {
		t.Error(p.Says())
	}
	if p := program.Finish(t, 1, "data", "csv(path=none.csv,label=y)", "--check"); !strings.Contains(p.Err.String(), "none.csv") {
		t.Error(p.Says())
	}
	if p := program.Finish(t, 0, "data", "mnist", "--cache-dir", t.TempDir()); !strings.Contains(p.Out.String(), "mnist: ") || !strings.HasSuffix(p.Out.String(), "\n") {
		t.Error(p.Says())
	}
	program.Finish(t, 0)
	program.Finish(t, 0, "--help")
}

// Mistakes end in exit code 2 and leave nothing behind, and the message says
// what is right.
func TestMistakes(t *testing.T) {
	t.Parallel()
	file := program.Recipe(t, program.Quick)
	bad := program.Recipe(t, "steps: 3\nbach: 4\n")
	for _, c := range []struct {
		args []string
		want []string // each on stderr
	}{
		{[]string{"rum"}, []string{`unknown command "rum"`}},
		{[]string{"--bogus"}, []string{"--bogus"}},
		{[]string{"run"}, []string{"needs a recipe"}},
		{[]string{"run", "data=cifar10", "quickstart"}, []string{"as in quickstart data=cifar10"}},
		{[]string{"run", "quickstrat"}, []string{`did you mean "quickstart"?`}},
		{[]string{"run", "./nowhere.yaml"}, []string{"nowhere.yaml"}},
		{[]string{"run", file, "--bogus"}, []string{"--bogus"}},
		{[]string{"run", file, "--net", "cloud"}, []string{`key "net"`, "local", "grpc", "sim"}},
		{[]string{"run", file, "--net", "grpc", "bach=3"}, []string{`command line: unknown key "bach"; did you mean "batch"?`}},
		{[]string{"run", file, "codec=topq", "workers=0", "seed"}, []string{`key "codec"`, `"topk"`, `key "workers"`, `"seed" is not key=value`}},
		{[]string{"run", bad, "workers=0"}, []string{bad + `:2: unknown key "bach"`, `command line: key "workers"`}},
		{[]string{"run", file, "model=resnet20", "data=synthetic(dim=64)"}, []string{`key "model"`}},
		{[]string{"run", file, "--net", "grpc", "servers=2", "optimizer=chain(clip(norm=1),sgd)"}, []string{"clip"}},
		{[]string{"run", file, "codec=raw,feedback(qsgd(bits=2))"}, []string{"qsgd"}},
		{[]string{"list", "codec"}, []string{`did you mean "codecs"?`}},
		{[]string{"list", "codecs", "models"}, []string{"one word"}},
		{[]string{"data", "digitz"}, []string{`did you mean "digits"?`}},
		{[]string{"data", "a", "b"}, []string{"one name"}},
		{[]string{"data", "my.csv"}, []string{"gradlab data 'csv(path=my.csv,label=…)'"}},
		{[]string{"run", file, "data=my.csv"}, []string{"data=csv(path=my.csv,label=…)"}},
		{[]string{"compare", "runs"}, []string{"gradlab runs compare"}},
		{[]string{"help", "compare"}, []string{"gradlab runs compare"}},
		{[]string{"help", "train"}, []string{"gradlab run RECIPE"}},
		{[]string{"help", "glossary"}, []string{"docs/glossary.md"}},
		{[]string{"join"}, []string{"recipe"}},
		{[]string{"join", file}, []string{"no rank"}},
		{[]string{"join", file, "--rank", "0"}, []string{"--coordinator"}},
		{[]string{"join", file, "--rank", "0", "--coordinator", "127.0.0.1:1"}, []string{"GRADLAB_TOKEN"}},
		{[]string{"join", file, "seed=1,2", "--rank", "0", "--coordinator", "127.0.0.1:1"}, []string{"2 runs"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			out := t.TempDir()
			args := c.args
			if args[0] == "run" {
				args = append(args, "--out", filepath.Join(out, "runs"))
			}
			p := program.Finish(t, 2, args...)
			program.Plain(t, p)
			for _, w := range c.want {
				if !strings.Contains(p.Err.String(), w) {
					t.Errorf("the message does not say %q:\n%s", w, p.Err.String())
				}
			}
			if p.Out.String() != "" {
				t.Errorf("on stdout: %s", p.Out.String())
			}
			if files, _ := os.ReadDir(out); len(files) > 0 {
				t.Errorf("left %v", files)
			}
		})
	}
}

// Synchronous training gives the same parameters wherever it runs, on however
// many threads.
func TestNetsAgree(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	text := "data: digits\nmodel: mlp(hidden=[32])\nsteps: 30\nbatch: 16\nworkers: 3\noptimizer: momentum\nschedule: constant(lr=0.05)\n"
	for _, over := range [][]string{
		{"mode=server"}, {"mode=reduce"},
		{"mode=server", "servers=2", "codec=feedback(topk(keep=0.05))"},
		{"mode=reduce", "codec=feedback(topk(keep=0.05))"},
	} {
		t.Run(strings.Join(over, " "), func(t *testing.T) {
			var first program.Result
			for i, net := range []string{"local", "sim", "grpc", "grpc links=grpc", "grpc emulate=true network.bandwidth=10Gbps"} {
				args := append([]string{"run", program.Recipe(t, text), "--json", "--quiet", "--out", t.TempDir(), fmt.Sprintf("threads=%d", i%3), "--net"}, strings.Fields(net)...)
				r := program.Finish(t, 0, append(args, over...)...).Result()
				links := "auto"
				if strings.HasSuffix(net, "links=grpc") {
					links = "grpc"
				}
				processes := strings.HasPrefix(net, "grpc")
				if processes != (r.Wire > 0) || (r.Shared > 0) != (shm.Supported && processes && links == "auto") || r.Shared > r.Wire {
					t.Errorf("%s: links carried %d bytes, %d of them through shared memory", net, r.Wire, r.Shared)
				}
				if r.Config["links"] != links {
					t.Errorf("%s is recorded as links=%v", net, r.Config["links"])
				}
				if i == 0 {
					first = r
				}
				if r.SHA256 != first.SHA256 || r.BytesUp != first.BytesUp || r.BytesDown != first.BytesDown {
					t.Errorf("%s gives %s with %d bytes up and %d down, local gave %s with %d and %d",
						net, r.SHA256, r.BytesUp, r.BytesDown, first.SHA256, first.BytesUp, first.BytesDown)
				}
			}
		})
	}
}

// On the virtual clock an asynchronous run repeats on one core and on two.
func TestSimRepeatsOnAnyCores(t *testing.T) {
	t.Parallel()
	text := program.Quick + "policy: asp\nworkers: 4\ndevice: {law: lognormal(sigma=0.3)}\nsteps: 60\n"
	text = strings.Replace(strings.Replace(text, "workers: 2\n", "", 1), "steps: 10\n", "", 1)
	var all []program.Result
	for _, n := range []string{"1", "2"} {
		p := program.Start(t, []string{"GOMAXPROCS=" + n}, "run", program.Recipe(t, text), "--json", "--quiet", "--out", t.TempDir())
		p.Expect(0)
		all = append(all, p.Result())
	}
	if all[0].SHA256 != all[1].SHA256 || all[0].Virtual != all[1].Virtual {
		t.Errorf("%+v, then %+v", all[0], all[1])
	}
}
