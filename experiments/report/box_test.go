package report

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// The page begins with a matrix of answers: a row for each network, a column for each thing
// that is asked for; what is alike in all rows stands there once.
func TestBoxOfAnswers(t *testing.T) {
	t.Parallel()
	r := mustNew(t, swept([]string{"raw", "bf16"}, []float64{1e8, 1e9}, crossing))
	box := r.Box()
	if got := fmt.Sprint(box.Columns); got != "[soonest fewest bytes]" {
		t.Fatal(got)
	}
	for i, want := range []string{"bf16 1.0s first with probability 1.00; next raw, 3.0×", "raw 300ms (285ms to 315ms) first with probability 1.00; next bf16, 3.3×"} {
		c := box.Rows[i].Cells[0]
		if got := c.Winner + " " + c.Figure + " " + strings.Join(c.Notes, "; "); got != want || c.Rows != 1 {
			t.Errorf("row %d: %s, %d rows", i, got, c.Rows)
		}
	}
	if a, b := box.Rows[0].Cells[1], box.Rows[1].Cells[1]; a.Rows != 2 || b.Rows != 0 || a.Winner != "bf16" {
		t.Errorf("%+v, %+v", a, b)
	}
	page := html(t, r)
	if !strings.Contains(page, `<h1>`+r.Tasks[0].What()) || strings.Index(page, `class="box rows"`) > strings.Index(page, "<figure") {
		t.Error("the page does not begin with the answers")
	}
}

// Those that are alike in bytes stand in one order in all rows, whatever their times are, so
// that the rows' cells are one.
func TestTiesAreInOneOrder(t *testing.T) {
	t.Parallel()
	box := mustNew(t, swept([]string{"bf16", "raw", "sign"}, []float64{1e8, 1e9}, func(codec string, network float64, seed uint64) float64 {
		if codec == "sign" { // sooner than raw on one network alone
			return 2
		}
		return crossing(codec, network, seed)
	})).Box()
	if a, b := box.Rows[0].Cells[1], box.Rows[1].Cells[1]; a.Winner != "bf16" || a.Rows != 2 || b.Rows != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// Every entry of the contents is the id of something, and no id is there twice.
func TestContents(t *testing.T) {
	t.Parallel()
	for _, runs := range [][]*store.Run{sample, swept([]string{"raw", "bf16"}, []float64{1e8, 1e9}, crossing)} {
		r := mustNew(t, runs)
		page := html(t, r)
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids[m[1]] {
				t.Errorf("id %q is there twice", m[1])
			}
			ids[m[1]] = true
		}
		links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1)
		if len(links) < 3 {
			t.Errorf("%d links", len(links))
		}
		for _, m := range links {
			if !ids[m[1]] {
				t.Errorf("nothing has the id %q", m[1])
			}
		}
	}
}

// Columns with one value stand above the table, and what is left of the table once.
func TestColumnsAlike(t *testing.T) {
	t.Parallel()
	task := mustNew(t, append(seeded("raw", 0.9, keep), seeded("bf16", 0.5, keep)...)).Tasks[0]
	table := task.Table()
	alike, heads := strings.Join(table.Alike, "; "), strings.Join(table.Heads, "; ")
	if !strings.Contains(alike, "seeds 3") || strings.Contains(heads, "seeds") || !strings.Contains(heads, "best accuracy; behind the best (points)") {
		t.Errorf("alike are %s; columns are %s", alike, heads)
	}
	for _, row := range table.Rows {
		if len(row.Cells) != len(table.Heads) {
			t.Errorf("%d cells", len(row.Cells))
		}
	}
	if s := table.Rows[1].Cells[1].Text; !strings.Contains(s, ", p ") {
		t.Errorf("no p in %q", s)
	}
	one := mustNew(t, seeded("raw", 0.9, keep)).Tasks[0].Table()
	if len(one.Alike) != 0 {
		t.Errorf("of one row %v are alike", one.Alike)
	}
}

// An interval has the unit and the decimals of its mean.
func TestOneUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mean, half float64
		n          int
		want       string
	}{
		{1.3, 476e-6, 3, "1.3s"}, {1.3, 0.24, 3, "1.3 ± 0.2s"}, {0.612, 0.007, 3, "612 ± 7ms"}, {0.5, 0, 3, "500ms"}, {0.5, 0.1, 1, "500ms"},
	} {
		if got := inOneUnit(stats.Summary{N: c.n, Mean: c.mean, Half: c.half}, progress.Seconds); got != c.want {
			t.Errorf("%v ± %v of %d: %q, want %q", c.mean, c.half, c.n, got, c.want)
		}
	}
	if got := inOneUnit(stats.Summary{N: 3, Mean: 722.2e6, Half: 1.1e6}, bytesText); got != "722.2 ± 1.1 MB" {
		t.Error(got)
	}
}

// Where a step is mostly on the wire, or mostly coding, a sentence says so.
func TestBottlenecks(t *testing.T) {
	t.Parallel()
	for want, spent := range map[string]record.Times{
		"The network is saturated: 85 % of a step or more is on the wire, so policies": {Compute: 1, Encode: 0.5, Wire: 8.5},
		"Coding is up to 80 % of a step with ":                                         {Compute: 1, Encode: 5, Decode: 3, Wire: 1},
		"":                                                                             {Compute: 5, Encode: 1, Wire: 4},
	} {
		task := mustNew(t, append(seeded("raw", 0.9, keep), seeded("bf16", 0.9, keep)...)).Tasks[0]
		for _, c := range task.Configs {
			for _, trial := range c.Trials {
				trial.Ranks = []record.RankReport{{Role: "worker", Steps: 1, Time: &spent}}
			}
		}
		said := strings.Join(bottlenecks(task), " ")
		if want == "" && said != "" || !strings.Contains(strings.Join(task.Answer(), " "), want) {
			t.Errorf("%q: %s", want, said)
		}
	}
}
