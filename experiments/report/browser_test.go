package report

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// looker is a page that lays the report out at several widths and writes down
// what it finds: the width that the report takes, the tables whose script ran,
// and the figures that have a size.
const looker = `<!DOCTYPE html><body><script>
for (const width of [390, 820, 1280]) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 800; frame.src = "/report";
  frame.onload = () => {
    const d = frame.contentDocument;
    const line = document.createElement("p");
    const figures = [...d.querySelectorAll(".panel svg")].filter((s) => s.getBoundingClientRect().height > 50).length;
    const sorted = d.querySelectorAll("table.sort th[tabindex]").length;
    line.textContent = "at " + width + " takes " + d.documentElement.scrollWidth + " figures " + figures + " sortable " + sorted + ";";
    document.body.append(line);
  };
  document.body.append(frame);
}
</script></body>`

func browser(t *testing.T) string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on this machine")
	return ""
}

// A browser lays the page out without a sideways scroll from phone to desktop,
// draws every figure and runs the one script that the policy allows.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	path := browser(t)
	r := mustNew(t, sample)
	page := html(t, r)
	mux := http.NewServeMux()
	serve := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprint(w, body)
		})
	}
	serve("/report", page)
	serve("/", looker)
	s := httptest.NewServer(mux)
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--window-size=1400,2600", "--virtual-time-budget=10000", "--dump-dom", s.URL).Output()
	if err != nil {
		t.Fatal(err)
	}
	panels := 0
	for _, s := range r.Tasks[0].Sections {
		panels += len(s.Panels)
	}
	found := regexp.MustCompile(`at (\d+) takes (\d+) figures (\d+) sortable (\d+);`).FindAllSubmatch(out, -1)
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
	}
}
