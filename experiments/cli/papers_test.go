package cli_test

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// tinyImageNet writes an ImageNet of two classes: class folders of small pictures.
func tinyImageNet(t *testing.T, train, val int) string {
	t.Helper()
	dir := t.TempDir()
	for set, n := range map[string]int{"train": train, "val": val} {
		for class := range 2 {
			folder := filepath.Join(dir, "imagenet", set, fmt.Sprintf("n0000000%d", class))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				img := image.NewRGBA(image.Rect(0, 0, 40+i, 48))
				for x := range 40 + i {
					for y := range 48 {
						img.Set(x, y, color.RGBA{uint8(6 * x), uint8(5 * y), uint8(255 * class), 255})
					}
				}
				f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d.jpg", i)))
				if err != nil {
					t.Fatal(err)
				}
				if err := jpeg.Encode(f, img, nil); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return dir
}

// A paper's training on an ImageNet folder: an update has the samples it is told,
// whatever the number of workers, and the run says how that is kept and what the paper
// reached.
func TestRunPaperOnImageNet(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("trains ResNet-50")
	}
	dir, out := tinyImageNet(t, 4, 2), t.TempDir()
	p := program.Start(t, nil, "run", "goyal2017", "data=imagenet", "workers=2", "global_batch=8", "micro_batch=2", "steps=1", "eval_every=0",
		"--json", "--data-dir", dir, "--out", out)
	if code := p.Wait(program.Enough); code != 0 {
		t.Fatalf("exit %d: %s", code, p.Err.String())
	}
	for _, want := range []string{
		"an update has 8 samples, however many workers there are: 2 workers of 4 each, computed in 2 micro-batches of 2",
		"published: top-1 error, %: 23.74 ± 0.09 (table 1",
	} {
		if !strings.Contains(p.Err.String(), want) {
			t.Errorf("no %q in\n%s", want, p.Err.String())
		}
	}
	var r struct {
		Recipe, Folder, Status string
		Config                 map[string]any
	}
	if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, p.Out.String())
	}
	if r.Status != "done" || r.Config["data"] != "imagenet(size=224)" || r.Config["batch"] != 4. || r.Config["accumulate"] != 2. || r.Config["net"] != "local" {
		t.Errorf("%+v", r)
	}
}

// Without ImageNet the error says how to get it, and where to put it.
func TestRunPaperWithoutData(t *testing.T) {
	t.Parallel()
	p := program.Start(t, nil, "run", "goyal2017", "data=imagenet", "--data-dir", t.TempDir(), "--cache-dir", t.TempDir(), "--out", t.TempDir())
	if code := p.Wait(program.Enough); code == 0 {
		t.Fatal("it ran without data")
	}
	for _, want := range []string{"imagenet is not on this machine", "--data-dir or GRADLAB_DATA_DIR", "ILSVRC2012_img_train.tar", "gradlab run goyal2017 --proxy"} {
		if !strings.Contains(p.Err.String(), want) {
			t.Errorf("no %q in\n%s", want, p.Err.String())
		}
	}
}

// The forms of a recipe on the command line: what cannot go together, and what has
// none, is refused.
func TestFormsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "goyal2017", "--timing", "--proxy"}, "--timing trains nothing"},
		{[]string{"run", "quickstart", "--proxy"}, `recipe quickstart has no form "proxy"; these have one: airbench94, `},
		{[]string{"run", "goyal2017", "--timing", "workers=60"}, "take 32 or 64 workers"},
	} {
		p := program.Start(t, nil, c.args...)
		if code := p.Wait(program.Enough); code != 2 || !strings.Contains(p.Err.String(), c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, p.Err.String())
		}
	}
	p := program.Start(t, nil, "run", "airbench94", "--timing", "--json", "--quiet")
	if code := p.Wait(program.Enough); code != 0 {
		t.Fatalf("exit %d: %s", code, p.Err.String())
	}
	var timing struct {
		Rows []struct {
			Updates int
			Minutes float64
		}
	}
	if err := json.Unmarshal([]byte(p.Out.String()), &timing); err != nil || len(timing.Rows) != 1 || timing.Rows[0].Updates != 484 || timing.Rows[0].Minutes <= 0 {
		t.Errorf("%v: %s", err, p.Out.String())
	}
}

// Every recipe of a paper takes a step of its small form, with real gradients of its
// virtual workers.
func TestEveryProxyTakesAStep(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	if !patience.Long {
		t.Skip("trains 15 networks")
	}
	for name, batch := range map[string]int{
		"he2015": 2, "goyal2017": 10, "you2017": 80, "akiba2017": 40, "cho2017": 10, "smith2017": 10, "codreanu2017": 60, "jia2018": 80, "ying2018": 40,
		"mikami2018": 135, "yamazaki2019": 80, "nado2021": 20, "airbench94": 8, "mlperf-lars": 2, "torchvision": 2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run", name, "--proxy", "--json", "--quiet", "--out", t.TempDir(), "data=synthetic(dim=3072,side=32,n=512,test=16)",
				fmt.Sprint("global_batch=", batch), "steps=1", "eval_every=0"}
			switch name {
			case "mlperf-lars":
				args = append(args, "run=1632")
			case "torchvision":
				args = append(args, "run=second")
			}
			p := program.Start(t, nil, args...)
			if code := p.Wait(program.Enough); code != 0 {
				t.Errorf("%s: exit %d: %s", name, code, p.Err.String())
				return
			}
			var r struct {
				Recipe, Status string
				Steps          int
				Accuracy       float64
			}
			if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil || r.Recipe != name+"-proxy" || r.Status != "done" || r.Steps != 1 {
				t.Errorf("%s: %v: %s", name, err, p.Out.String())
			}
		})
	}
}
