package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// tabs is a page that holds as many pages of the server as a browser has tabs, tells when
// all of them show the runs, closes half, that with the stream too, and tells when the
// others show one more.
const tabs = `<!DOCTYPE html><body><script>
const rows = (f) => f.contentDocument?.querySelectorAll("#runs tbody tr").length ?? 0;
const lives = (f) => f.contentDocument?.getElementById("live")?.textContent;
const until = (what, holds) => new Promise((done) => {
  const look = setInterval(() => {
    if (!holds()) return;
    clearInterval(look);
    fetch("/found", { method: "POST", body: what }).then(done);
  }, 50);
});
const frames = [];
for (let i = 0; i < 9; i++) {
  const f = document.createElement("iframe");
  f.src = "/?#token=secret";
  document.body.append(f);
  frames.push(f);
}
(async () => {
  await until("all", () => frames.every((f) => rows(f) === 2 && lives(f) === "live"));
  for (const f of frames.splice(0, 5)) f.remove();
  await until("one more", () => frames.every((f) => rows(f) === 3));
})();
</script></body>`

// More tabs than a browser opens connections to one server are all told of runs, and so
// are those that are left when the tab with the stream is closed.
func TestManyTabs(t *testing.T) {
	dir, w, s := finished(t)
	found := make(chan string, 4)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /found", func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		found <- string(b)
	})
	mux.HandleFunc("GET /tabs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, tabs)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.Config.Handler.ServeHTTP(inFrames{w}, r)
	})
	front := httptest.NewServer(mux)
	defer front.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Stretch(time.Minute))
	defer cancel()
	browser, end := program.Browser(ctx, t, "--remote-debugging-port=0", front.URL+"/tabs")
	defer front.CloseClientConnections()
	defer end()
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	hear := func(want string) {
		t.Helper()
		select {
		case got := <-found:
			if got != want {
				t.Fatalf("found %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("waited in vain for %q", want)
		}
	}
	hear("all")
	old, err := filepath.Glob(filepath.Join(dir, "test", "*"))
	if err != nil || len(old) < 2 {
		t.Fatal(old, err)
	}
	if err := os.CopyFS(filepath.Join(dir, "test", "another"), os.DirFS(old[0])); err != nil {
		t.Fatal(err)
	}
	w.Refresh()
	hear("one more")
}

// inFrames lets a page hold the server's.
type inFrames struct{ http.ResponseWriter }

func (w inFrames) WriteHeader(code int) {
	w.Header().Del("X-Frame-Options")
	w.ResponseWriter.WriteHeader(code)
}

func (w inFrames) Write(b []byte) (int, error) {
	w.Header().Del("X-Frame-Options")
	return w.ResponseWriter.Write(b)
}

func (w inFrames) Unwrap() http.ResponseWriter { return w.ResponseWriter }
