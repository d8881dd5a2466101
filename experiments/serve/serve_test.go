package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const small = "data: digits\nmodel: logistic\nbatch: 8\nworkers: 2\nnet: sim\neval_every: 5\nmode: server\npolicy: asp\n"

func runs(t *testing.T, text string) []config.Run {
	t.Helper()
	r, err := config.ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rs, err := r.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// finished makes two runs and a server of them.
func finished(t *testing.T) (dir string, w *Watch, s *httptest.Server) {
	t.Helper()
	dir = t.TempDir()
	_, err := experiments.ExecuteAll(context.Background(), runs(t, small+"steps: 20\ncodec: [raw, sign]\n"), experiments.Options{Recipe: "test", Out: dir})
	if err != nil {
		t.Fatal(err)
	}
	w = NewWatch(dir)
	w.Refresh()
	s = httptest.NewServer(New(w, "secret"))
	t.Cleanup(s.Close)
	return dir, w, s
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	q, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Gradlab-Token", "secret")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func fetch[T any](t *testing.T, url string) (v T) {
	t.Helper()
	code, body := get(t, url)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", url, code, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFinishedRuns(t *testing.T) {
	_, _, s := finished(t)
	rows := fetch[[]Row](t, s.URL+"/api/runs")
	if len(rows) != 2 || rows[0].Name != "codec=sign" || rows[0].State != "done" || rows[0].Step != 20 || rows[0].Test == "" || rows[0].Bytes == 0 {
		t.Fatalf("%+v", rows)
	}
	d := fetch[Detail](t, s.URL+"/api/runs/"+rows[0].Key)
	if d.Settings["codec"] != "sign" || len(d.Ranks) != 3 || len(d.Staleness) == 0 {
		t.Errorf("%+v", d)
	}
	type drawing struct{ Panels, Legend []struct{ Name, SVG string } }
	f := fetch[drawing](t, s.URL+"/api/figures?run="+rows[0].Key+"&run="+rows[1].Key)
	if len(f.Panels) != 6 || len(f.Legend) != 2 || !strings.HasPrefix(f.Panels[0].SVG, "<svg") {
		t.Errorf("%d panels, legend %v", len(f.Panels), f.Legend)
	}
	for path, want := range map[string]string{"/": "<title>gradlab", "/style.css": "--paper", "/serve.js": "EventSource", "/report": "codec=sign"} {
		if code, body := get(t, s.URL+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// A run that goes on after a stop writes its metrics anew: what was read before is
// not kept beside them.
func TestCurveOfAResumedRun(t *testing.T) {
	dir := t.TempDir()
	rs := runs(t, small+"steps: 40\ncheckpoint_every: 8\n")
	asked := 0
	_, err := experiments.ExecuteAll(context.Background(), rs, experiments.Options{Recipe: "test", Out: dir, Stopping: func() bool { asked++; return asked > 15 }})
	if !errors.Is(err, experiments.ErrStopped) {
		t.Fatal(err)
	}
	w := NewWatch(dir)
	w.Refresh()
	if _, err := experiments.ExecuteAll(context.Background(), rs, experiments.Options{Recipe: "test", Out: dir, Resume: true}); err != nil {
		t.Fatal(err)
	}
	w.Refresh()
	e := w.all()[0]
	c, err := e.run.Curve()
	if err != nil || !reflect.DeepEqual(e.curve, c) {
		t.Errorf("%v\nwatched %d reports, evaluations %v\nin the folder %d, %v", err, len(e.curve.Progress), e.curve.Evals, len(c.Progress), c.Evals)
	}
}

// Nothing that a request names reaches the file system, and other sites, other
// hosts and other methods are refused.
func TestHostileRequests(t *testing.T) {
	dir, _, s := finished(t)
	secret := filepath.Join(dir, "secret.txt")
	if err := os.WriteFile(secret, []byte("do not tell"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/runs/..%2f..%2fsecret.txt", "/api/runs/%2e%2e%2fsecret.txt", "/api/runs/" + strings.ReplaceAll(secret, "/", "%2f"),
		"/../secret.txt", "/api/figures?run=../../etc/passwd", "/api/figures", "/etc/passwd", "/%2e%2e/secret.txt", "/api/runs/%00", "/runs/",
	} {
		if code, body := get(t, s.URL+path); code == http.StatusOK || strings.Contains(body, "do not tell") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, host := range []string{"evil.example", "10.0.0.1:7788", "localhost.evil.example", ""} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/api/runs", nil)
		r.Host = host
		s.Config.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusMisdirectedRequest {
			t.Errorf("host %q: %d", host, w.Code)
		}
	}
	for _, host := range []string{"localhost", "localhost:1", "LOCALHOST:7788", "LocalHost", "127.0.0.1:7788", "[::1]:7788", "127.9.9.9"} {
		if !loopback(host) {
			t.Errorf("host %q is refused", host)
		}
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "192.168.1.1:80", "example.com:80", "nonsense"} {
		if l, err := Listen(address); err == nil {
			l.Close()
			t.Errorf("listens on %s", address)
		}
	}
	key := fetch[[]Row](t, s.URL+"/api/runs")[0].Key
	for token, want := range map[string]int{"": http.StatusForbidden, "guess": http.StatusForbidden, "secret": http.StatusConflict} {
		if code := stop(t, s.URL, key, token); code != want {
			t.Errorf("stop with token %q: %d, want %d", token, code, want)
		}
	}
	if code := stop(t, s.URL, "none", "secret"); code != http.StatusNotFound {
		t.Errorf("stop of nothing: %d", code)
	}
	if code, _ := get(t, s.URL+"/api/runs/"+key+"/stop"); code != http.StatusMethodNotAllowed {
		t.Errorf("stop by GET: %d", code)
	}
}

// Whoever reaches the port without the token is told nothing; what needs none knows
// nothing of runs. Answers keep scripts of others out, and idle connections end.
func TestTokenForEverything(t *testing.T) {
	_, _, s := finished(t)
	key := fetch[[]Row](t, s.URL+"/api/runs")[0].Key
	ask := func(path, header, value string) (int, string, http.Header) {
		r, err := http.NewRequest("GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set(header, value)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if a.Header.Get("Content-Type") == "text/event-stream" {
			return a.StatusCode, "", a.Header
		}
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(b), a.Header
	}
	for _, path := range []string{"/", "/style.css", "/serve.js"} {
		if code, body, _ := ask(path, "", ""); code != http.StatusOK || strings.Contains(body, "codec=sign") {
			t.Errorf("%s without the token: %d", path, code)
		}
	}
	for _, path := range []string{"/api/runs", "/api/runs/" + key, "/api/figures?run=" + key, "/api/events", "/report"} {
		for header, value := range map[string]string{"": "", "X-Gradlab-Token": "guess", "Authorization": "Bearer guess"} {
			if code, body, _ := ask(path, header, value); code != http.StatusForbidden || strings.Contains(body, key) {
				t.Errorf("%s with %s %q: %d", path, header, value, code)
			}
		}
		also := "?"
		if strings.Contains(path, "?") {
			also = "&"
		}
		for query, header := range map[string][2]string{"": {"Authorization", "Bearer secret"}, also + "token=secret": {}} {
			if code, _, _ := ask(path+query, header[0], header[1]); code != http.StatusOK {
				t.Errorf("%s%s with %s: %d", path, query, header, code)
			}
		}
	}
	if _, _, h := ask("/report?token=secret", "", ""); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the report's policy is %q", h.Get("Content-Security-Policy"))
	}
}

func stop(t *testing.T, url, key, token string) int {
	t.Helper()
	r, err := http.NewRequest("POST", url+"/api/runs/"+key+"/stop", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Gradlab-Token", token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// A run is seen from its begin, its curve grows, and the button stops it.
func TestLiveRun(t *testing.T) {
	dir := t.TempDir()
	w := NewWatch(dir)
	s := httptest.NewServer(New(w, "secret"))
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go w.Run(ctx, 20*time.Millisecond)

	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/events?token=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()

	run := runs(t, small+"steps: 100000\n")[0]
	ended := make(chan error, 1)
	go func() {
		_, err := experiments.Execute(ctx, run, experiments.Options{Recipe: "test", Out: dir})
		ended <- err
	}()
	asked, last := false, -1
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var rows []Row
		if err := json.Unmarshal([]byte(data), &rows); err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			continue
		}
		row := rows[0]
		if row.Step < last {
			t.Fatalf("updates go back from %d to %d", last, row.Step)
		}
		last = row.Step
		if d := fetch[Detail](t, s.URL+"/api/runs/"+row.Key); row.State == "running" && row.Test != "" && len(d.Workers) > 0 && !asked {
			asked = true
			told(t, d.Workers)
			if code := stop(t, s.URL, row.Key, "secret"); code != http.StatusAccepted {
				t.Fatalf("stop: %d", code)
			}
		}
		if row.State == "stopped" {
			break
		}
	}
	if !asked {
		t.Error("the run was never seen running with an accuracy and workers")
	}
	if err := <-ended; !errors.Is(err, experiments.ErrStopped) {
		t.Error(err)
	}
}

// told checks what workers of a running run tell, in the page.
func told(t *testing.T, workers []Worker) {
	t.Helper()
	for i, w := range workers {
		sum := 0.0
		for _, share := range w.Time {
			sum += share
		}
		if w.Rank != i || w.Step == 0 || math.Abs(sum-1) > 1e-9 || w.State != record.StateComputing && w.State != record.StateWaiting {
			t.Errorf("%+v", w)
		}
	}
}

// What is gone is told as such.
func TestRemovedRuns(t *testing.T) {
	dir, w, _ := finished(t)
	rows, all, version, _ := w.Rows(0)
	if len(rows) != 2 || !all {
		t.Fatal(rows)
	}
	if rows, all, _, _ := w.Rows(version); len(rows) != 0 || all {
		t.Errorf("news without any: %v", rows)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "test", "codec=raw*"))
	if err := os.RemoveAll(found[0]); err != nil {
		t.Fatal(err)
	}
	w.Refresh()
	if rows, all, _, _ := w.Rows(version); len(rows) != 1 || !all {
		t.Errorf("after a removal: %v", rows)
	}
}

// The report is drawn once, until a run changes.
func TestReportIsDrawnOnce(t *testing.T) {
	dir, w, _ := finished(t)
	s := New(w, "secret")
	draw := func() *byte {
		t.Helper()
		b, err := s.drawReport()
		if err != nil || len(b) == 0 {
			t.Fatal(err)
		}
		return &b[0]
	}
	first := draw()
	w.Refresh()
	if draw() != first {
		t.Error("nothing has changed, and the report is drawn anew")
	}
	if _, err := experiments.ExecuteAll(context.Background(), runs(t, small+"steps: 20\ncodec: [bf16]\n"), experiments.Options{Recipe: "test", Out: dir}); err != nil {
		t.Fatal(err)
	}
	w.Refresh()
	if draw() == first {
		t.Error("a run came, and the report is the old one")
	}
}

// hundreds makes so many finished runs in a folder, and gives a way to add one.
func hundreds(tb testing.TB, n int) (dir string, add func(i int)) {
	tb.Helper()
	dir = tb.TempDir()
	from := "../store/testdata/runs/quickstart/codec=raw,seed=1-85952d"
	add = func(i int) {
		if err := os.CopyFS(filepath.Join(dir, "sweep", fmt.Sprintf("run-%03d-3ae954", i)), os.DirFS(from)); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range n {
		add(i)
	}
	return dir, add
}

// A new run among 500 is there at the next look.
func TestNewRunAmongMany(t *testing.T) {
	dir, add := hundreds(t, 500)
	w := NewWatch(dir)
	w.Refresh()
	rows, _, version, changed := w.Rows(0)
	if len(rows) != 500 {
		t.Fatalf("%d rows", len(rows))
	}
	add(500)
	begin := time.Now()
	w.Refresh()
	select {
	case <-changed:
	default:
		t.Fatal("nobody is told")
	}
	if rows, all, _, _ := w.Rows(version); len(rows) != 1 || all {
		t.Errorf("%d rows are new", len(rows))
	}
	t.Logf("the look took %v", time.Since(begin))
}

// BenchmarkLook is one look at 500 finished runs, of which nothing changed.
func BenchmarkLook(b *testing.B) {
	dir, _ := hundreds(b, 500)
	w := NewWatch(dir)
	w.Refresh()
	for b.Loop() {
		w.Refresh()
	}
}
