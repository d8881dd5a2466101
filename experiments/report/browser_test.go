package report

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// looker is a page that lays the report out at several widths and writes down
// what it finds: the width that the report takes, the tables whose script ran,
// and the figures that have a size, where the first one is, and by how much the
// table of configurations is too wide.
const looker = `<!DOCTYPE html><body><script>
for (const width of [390, 820, 1280]) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 800; frame.src = "/report";
  frame.onload = () => {
    const d = frame.contentDocument;
    const line = document.createElement("p");
    const figures = [...d.querySelectorAll(".panel svg")].filter((s) => s.getBoundingClientRect().height > 50).length;
    const sorted = d.querySelectorAll("table.sort th[tabindex]").length;
    const first = d.querySelector(".panel svg").getBoundingClientRect(), table = d.querySelector(".wide").parentElement;
    line.textContent = "at " + width + " takes " + d.documentElement.scrollWidth + " figures " + figures + " sortable " + sorted +
      " first " + Math.round(first.top) + " to " + Math.round(first.bottom) + " over " + (table.scrollWidth - table.clientWidth) + ";";
    document.body.append(line);
  };
  document.body.append(frame);
}
</script></body>`

// dump is what a browser makes of a page, once its scripts have run.
func dump(t *testing.T, address string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Stretch(time.Minute))
	defer cancel()
	browser, end := program.Browser(ctx, t, "--window-size=1400,2600", "--virtual-time-budget=10000", "--dump-dom", address)
	defer end()
	out, err := browser.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pages serves a report, and a page that looks at it.
func pages(t *testing.T, report, looker string) (address string) {
	mux := http.NewServeMux()
	for pattern, body := range map[string]string{"/report": report, "/": looker} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprint(w, body)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A browser lays the page out without a sideways scroll from phone to desktop,
// has the first figure on the first screen of 800, draws every figure and runs the one script that the policy allows.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	r := mustNew(t, sample)
	page := html(t, r)
	out := dump(t, pages(t, page, looker))
	panels := 0
	for _, s := range r.Tasks[0].Sections {
		if panels += len(s.Panels); s.Choice { // of which one is there at a time
			panels -= len(s.Panels) - 1
		}
	}
	found := regexp.MustCompile(`at (\d+) takes (\d+) figures (\d+) sortable (\d+) first (\d+) to (\d+) over (\d+);`).FindAllSubmatch(out, -1)
	if len(found) != 3 {
		t.Fatalf("the browser says\n%s", out)
	}
	for _, m := range found {
		number := func(i int) int { n, _ := strconv.Atoi(string(m[i])); return n }
		if number(2) > number(1) {
			t.Errorf("%d wide, the page takes %d", number(1), number(2))
		}
		if number(3) != panels || number(4) == 0 {
			t.Errorf("%d wide: %d figures of %d, %d sortable columns", number(1), number(3), panels, number(4))
		}
		if number(1) == 1280 && (number(6) > 800 || number(7) > 0) || number(5) > 600 {
			t.Errorf("%d wide: the first figure from %d to %d, the table too wide by %d", number(1), number(5), number(6), number(7))
		}
	}
}

// screens is a page that writes down where the first figure of the report begins.
const screens = `<!DOCTYPE html><body><script>
const frame = document.createElement("iframe");
frame.width = 1280; frame.height = 900; frame.src = "/report";
frame.onload = () => {
  const line = document.createElement("p");
  line.textContent = "the first figure at " + Math.round(frame.contentDocument.querySelector(".panel svg").getBoundingClientRect().top) + ";";
  document.body.append(line);
};
document.body.append(frame);
</script></body>`

// Of 200 configurations, many of them on the front and with long names, the first figure
// begins on the first screen.
func TestFirstFigureOfMany(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	for i := range 200 {
		r := trial(fmt.Sprintf("feedback(topk(keep=%.4f,values=bf16,index=bitmap))", 0.0001*float64(i+1)), 1, store.Done, 0.6)
		r.Config.Target = record.Goal{} // all have one run's evaluations
		if i < 30 {                     // the longer, the better
			scoring(r, sgd.Accuracy, 0.6+0.01*float64(i))
			r.Result.VirtualSeconds = 1 + 0.1*float64(i)
		} else {
			r.Result.VirtualSeconds = 100
		}
		runs = append(runs, r)
	}
	r := mustNew(t, runs)
	front := 0
	for _, c := range r.Tasks[0].Configs {
		if c.Front {
			front++
		}
	}
	if front != 30 {
		t.Fatalf("%d on the front, want 30", front)
	}
	address := pages(t, html(t, r), screens)
	found := regexp.MustCompile(`the first figure at (\d+);`).FindSubmatch(dump(t, address))
	if found == nil {
		t.Fatal("the browser finds no figure")
	}
	if at, _ := strconv.Atoi(string(found[1])); at < 100 || at > 600 {
		t.Errorf("the first figure begins at %d, want it on the first screen", at)
	}
}
