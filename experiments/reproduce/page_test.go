package reproduce

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/patience"
)

// Rows of docs/accuracy-of-predictions.md that name a study's command have what the command
// gives: points not fitted inside their interval, errors, and half an interval.
func TestAccuracyOnThePage(t *testing.T) {
	const page = "docs/accuracy-of-predictions.md"
	b, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\|.*\\(`gradlab reproduce ([a-z-]+) --quick`\\) (\\|.*)\\|$").FindAllStringSubmatch(string(b), -1)
	if len(rows) < 5 {
		t.Fatalf("%d rows of %s name a study", len(rows), page)
	}
	for _, m := range rows {
		t.Run(m[1], func(t *testing.T) {
			if _, ok := Studies.Proto(m[1]); !ok {
				t.Fatalf("%s names a study that is not there", page)
			}
			cells := strings.Split(m[2], "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if len(cells) != 7 {
				t.Fatalf("%s has %d cells behind the study, want 6", page, len(cells)-1)
			}
			if !patience.Long {
				t.Skip("predicts published points, each many times")
			}
			t.Parallel()
			dir := t.TempDir()
			r, err := Run(t.Context(), m[1], &Lab{Quick: true, Out: dir, Runs: experiments.Options{Recipe: m[1], Out: dir}})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range onPage(t, r) {
				if cells[3+i] != want {
					t.Errorf("%s has %q, the command gives %q", page, cells[3+i], want)
				}
			}
		})
	}
}

// onPage is the cells of a report: points inside, median and rms error, half an interval. A
// single point has no rms.
func onPage(t *testing.T, r *Report) []string {
	t.Helper()
	c, _ := Covered([]*Report{r})
	if c == nil {
		t.Fatalf("%s predicts nothing", r.Study)
	}
	inside := 0
	for _, p := range r.Predicted {
		if p.Inside() {
			inside++
		}
	}
	in, rms := fmt.Sprintf("%d of %d", inside, c.Points), ""
	if inside < c.Points {
		in += fmt.Sprintf(" (%.0f %%)", c.Inside)
	}
	if c.Points > 1 {
		rms = fmt.Sprintf("%.1f %%", c.RMS)
	}
	return []string{in, strings.ReplaceAll(fmt.Sprintf("%+.1f %%", c.Median), "-", "−"), rms, fmt.Sprintf("%.1f %%", c.Width)}
}
