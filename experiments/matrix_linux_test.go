package experiments

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
)

// matrixShare is how many cells of the matrix one stands for with the tag long; 1 tries all of
// them, for more than half an hour.
var matrixShare = flag.Int("matrix", 12, "with the tag long, try one of so many cells of the matrix of scripts")

// What the page says of scripts of PyTorch is so, in every cell: by default under feedback
// of top-k. With the tag long a share of the cells is tried under every codec, and with four
// ranks; which ones depends on their names alone.
func TestMatrixOfScripts(t *testing.T) {
	t.Parallel()
	of := torchRanks(t)
	page, err := os.ReadFile("../docs/from-pytorch.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[[2]string]string{} // by what a script does, and wrapper
	_, table, _ := strings.Cut(string(page), "| what | `DDP` | `FSDP1` | `FSDP2` |\n|---|---|---|---|\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(row, "|\n "), " | ")
		if len(cells) != 4 {
			break
		}
		for i, wrapper := range []string{"DDP", "FSDP1", "FSDP2"} {
			said[[2]string{strings.ReplaceAll(cells[0], "`", ""), wrapper}] = cells[1+i]
		}
	}
	type run struct {
		world  int
		cells  string // which, to matrix.py
		codecs []string
	}
	runs := []run{{2, "quick", []string{"feedback(topk(keep=0.1))"}}}
	if patience.Long {
		codecs := []string{"topk(keep=1)", "feedback(powersgd(rank=2))", "raw", "feedback(cltk(keep=0.05))", "feedback(fp16)",
			"device feedback(topk(keep=0.1))", "device qsgd(bits=4)", "scatter(qsgd(bits=4))", "vote"} // every road
		for _, name := range compress.Families.Names() {
			f, _ := compress.Families.Proto(name)
			// Tests here enrol others, which the library does not know.
			if spec := compress.Spec(f); !slices.Contains(codecs, spec) && strings.HasSuffix(reflect.TypeOf(f).PkgPath(), "/compress") {
				codecs = append(codecs, spec)
			}
		}
		share := "1/" + strconv.Itoa(*matrixShare)
		runs = append(runs, run{2, share, append(runs[0].codecs, codecs...)},
			run{4, share, []string{"raw", "topk(keep=1)", "feedback(topk(keep=0.1))", "qsgd(bits=4)"}})
	}
	for _, run := range runs {
		seen := map[[2]string]int{}
		for line := range strings.Lines(of.meet(t, run.world, "testdata/external/matrix.py", append([]string{run.cells}, run.codecs...)...)) {
			cells := strings.SplitN(strings.TrimSpace(line), " | ", 4)
			if len(cells) != 4 {
				continue // a warning of PyTorch
			}
			at, got := [2]string{cells[0], cells[1]}, cells[3]
			seen[at]++
			switch want, ok := said[at]; {
			case !ok:
				t.Errorf("the page does not say what %s comes to", at)
			case want == "right" && got != "right", want != "right" && !strings.Contains(got, strings.Trim(want, "`")):
				t.Errorf("%d ranks: %s; the page says %s", run.world, line, want)
			}
		}
		for at, want := range said {
			tried, there := seen[at] > 0, want != "–"
			if whole := run.cells == "1/1" || run.cells == "quick" && at[0] != "compiled by inductor"; tried && !there || whole && there && !tried {
				t.Errorf("%s: tried is %t; the page says %s", at, tried, want)
			}
		}
	}
}

// What a codec has not sent yet goes along when 4 ranks become 3, then 5, then 2, in another
// wrapper each time: what was sent and what is owed are the gradients.
func TestAnotherNumberOfRanks(t *testing.T) {
	t.Parallel()
	of := torchRanks(t)
	codecs := patience.Few(1, []string{"feedback(topk(keep=0.1))", "device feedback(topk(keep=0.1))", "feedback(powersgd(rank=2))", "feedback(sign)"})
	lines := strings.Split(strings.TrimSpace(of.meet(t, 5, "testdata/external/resize.py", codecs...)), "\n")
	for _, codec := range codecs {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, codec+" ") })
		if i < 0 {
			t.Fatalf("%s: %s", codec, lines)
		}
		f := strings.Fields(strings.TrimPrefix(lines[i], codec+" "))
		off, _ := strconv.ParseFloat(f[0], 64)
		if owed, _ := strconv.ParseFloat(f[1], 64); !(off <= 1e-6) || owed < 1e-2 {
			t.Errorf("%s: off by %v, of %v that is owed", codec, off, owed)
		}
	}
}
