package mlflow

import (
	"bytes"
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
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/experiments/store"
)

// server answers as the documentation of MLflow's REST API says, limits
// included.
type server struct {
	t *testing.T

	mu          sync.Mutex
	experiments []string
	runs        []*kept
	calls       int
	failAt      int  // the call that is answered with an error; 0: none
	elsewhere   bool // artifacts are kept where only the server's host can write
	user        string
}

type kept struct {
	experiment, name, status string
	tags, params             map[string]string
	metrics                  map[string][]metric
	files                    map[string][]byte
	deleted                  bool
}

func (s *server) refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error_code": code, "message": message})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, _, _ = r.BasicAuth()
	if s.calls++; s.calls == s.failAt {
		s.refuse(w, 500, "INTERNAL_ERROR", "out of order")
		return
	}
	var in struct {
		Name         string   `json:"name"`
		ExperimentID string   `json:"experiment_id"`
		IDs          []string `json:"experiment_ids"`
		Filter       string   `json:"filter"`
		RunName      string   `json:"run_name"`
		RunID        string   `json:"run_id"`
		Start        int64    `json:"start_time"`
		End          int64    `json:"end_time"`
		Status       string   `json:"status"`
		Tags         []pair   `json:"tags"`
		Params       []pair   `json:"params"`
		Metrics      []metric `json:"metrics"`
		Key          string   `json:"key"`
		Value        string   `json:"value"`
	}
	if file, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow-artifacts/artifacts/"); ok && r.Method == http.MethodPut {
		var i, experiment int
		var name string
		if _, err := fmt.Sscanf(file, "%d/run-%d/artifacts/%s", &experiment, &i, &name); err != nil || i >= len(s.runs) || s.runs[i].experiment != fmt.Sprint(experiment) {
			s.t.Errorf("PUT %s: %v", file, err)
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		s.runs[i].files[name] = b
		_, _ = w.Write([]byte("{}"))
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow/")
	if r.Method == http.MethodPost {
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		in.IDs = nil
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil || r.Header.Get("Content-Type") != "application/json" {
			s.t.Errorf("%s: %v", path, err)
		}
		_ = json.Unmarshal(raw, &in)
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	var run *kept
	if in.RunID != "" {
		var i int
		if _, err := fmt.Sscanf(in.RunID, "run-%d", &i); err != nil || i >= len(s.runs) {
			s.refuse(w, 404, "RESOURCE_DOES_NOT_EXIST", in.RunID)
			return
		}
		run = s.runs[i]
	}
	switch r.Method + " " + path {
	case "GET experiments/get-by-name":
		for i, name := range s.experiments {
			if name == r.URL.Query().Get("experiment_name") {
				answer(map[string]any{"experiment": map[string]any{"experiment_id": fmt.Sprint(i), "name": name}})
				return
			}
		}
		s.refuse(w, 404, "RESOURCE_DOES_NOT_EXIST", "no such experiment")
	case "POST experiments/create":
		s.experiments = append(s.experiments, in.Name)
		answer(map[string]any{"experiment_id": fmt.Sprint(len(s.experiments) - 1)})
	case "POST runs/search":
		m := regexp.MustCompile("^tags\\.`([^`]+)` = '([^']+)'$").FindStringSubmatch(in.Filter)
		if m == nil || len(in.IDs) != 1 {
			s.refuse(w, 400, "INVALID_PARAMETER_VALUE", in.Filter)
			return
		}
		found := []any{}
		for i, k := range s.runs {
			if !k.deleted && k.experiment == in.IDs[0] && k.tags[m[1]] == m[2] {
				found = append(found, map[string]any{"info": map[string]any{"run_id": fmt.Sprintf("run-%d", i), "status": k.status}})
			}
		}
		answer(map[string]any{"runs": found})
	case "POST runs/create":
		k := &kept{experiment: in.ExperimentID, name: in.RunName, status: "RUNNING", tags: map[string]string{}, params: map[string]string{}, metrics: map[string][]metric{}, files: map[string][]byte{}}
		for _, p := range in.Tags {
			k.tags[p.Key] = p.Value
		}
		s.runs = append(s.runs, k)
		if in.Start < 1e12 {
			s.t.Errorf("started at %d, want milliseconds", in.Start)
		}
		id := fmt.Sprintf("run-%d", len(s.runs)-1)
		artifacts := "mlflow-artifacts:/" + in.ExperimentID + "/" + id + "/artifacts"
		if s.elsewhere {
			artifacts = "s3://bucket/" + id
		}
		answer(map[string]any{"run": map[string]any{"info": map[string]any{"run_id": id, "artifact_uri": artifacts}}})
	case "POST runs/set-tag":
		run.tags[in.Key] = in.Value
		answer(map[string]any{})
	case "POST runs/log-batch":
		if len(in.Params) > 100 || len(in.Metrics) > 1000 || len(in.Params)+len(in.Metrics)+len(in.Tags) > 1000 {
			s.refuse(w, 400, "INVALID_PARAMETER_VALUE", "too much at once")
			return
		}
		for _, p := range in.Params {
			k := regexp.MustCompile(`^[\w./ -]{1,250}$`)
			if _, again := run.params[p.Key]; again || !k.MatchString(p.Key) || len(p.Value) > 6000 {
				s.refuse(w, 400, "INVALID_PARAMETER_VALUE", p.Key)
				return
			}
			run.params[p.Key] = p.Value
		}
		for _, m := range in.Metrics {
			run.metrics[m.Key] = append(run.metrics[m.Key], m)
		}
		answer(map[string]any{})
	case "POST runs/update":
		run.status = in.Status
		answer(map[string]any{"run_info": map[string]any{}})
	case "POST runs/delete":
		run.deleted = true
		answer(map[string]any{})
	default:
		s.t.Errorf("%s %s, %v", r.Method, r.URL, ok)
		s.refuse(w, 404, "ENDPOINT_NOT_FOUND", path)
	}
}

func runs(t *testing.T) []*store.Run {
	t.Helper()
	all, err := store.Find("../store/testdata/runs/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	var done []*store.Run
	for _, r := range all {
		if r.State == store.Done {
			done = append(done, r)
		}
	}
	return done
}

func export(t *testing.T, c *Client, rs []*store.Run) map[Outcome]int {
	t.Helper()
	n := map[Outcome]int{}
	for _, r := range rs {
		o, err := c.Export(context.Background(), r.Recipe, r)
		if err != nil {
			t.Fatal(err)
		}
		n[o]++
	}
	return n
}

func TestExport(t *testing.T) {
	s := &server{t: t}
	h := httptest.NewServer(s)
	defer h.Close()
	c := &Client{URL: h.URL + "/", User: "me", Password: "secret"}
	rs := runs(t)
	if n := export(t, c, rs); n[Exported] != len(rs) || len(s.runs) != len(rs) {
		t.Fatalf("%v of %d", n, len(rs))
	}
	if n := export(t, c, rs); n[There] != len(rs) || len(s.runs) != len(rs) {
		t.Errorf("again: %v, %d runs there", n, len(s.runs))
	}
	if len(s.experiments) != 1 || s.experiments[0] != "quickstart" || s.user != "me" {
		t.Errorf("experiments %v, user %q", s.experiments, s.user)
	}
	for i, r := range rs {
		k := s.runs[i]
		curve, err := r.Curve()
		if err != nil {
			t.Fatal(err)
		}
		acc := k.metrics["test/accuracy"]
		if k.status != "FINISHED" || k.name != r.Name && k.name != r.Recipe || k.params["codec"] != r.Config.Codec || len(acc) != len(curve.Evals) || len(k.metrics["train/loss"]) != len(curve.Progress) {
			t.Errorf("%+v", k)
		}
		if got := k.metrics["result/accuracy"]; len(got) != 1 || got[0].Value != r.Result.Values["accuracy"] || got[0].Step != r.Result.Steps {
			t.Errorf("accuracy %v, want %v", got, r.Result.Values["accuracy"])
		}
		for j := 1; j < len(acc); j++ {
			if acc[j].At < acc[j-1].At || acc[j].Step <= acc[j-1].Step {
				t.Errorf("evaluation %d at %+v, before %+v", j, acc[j], acc[j-1])
			}
		}
	}
	going := *rs[0]
	going.State = store.Running
	if n := export(t, c, []*store.Run{&going}); n[Going] != 1 {
		t.Errorf("a running run: %v", n)
	}
}

// Whatever call fails, giving the command again leaves each run there once,
// whole.
func TestExportAgainAfterAnError(t *testing.T) {
	rs := runs(t)[:2]
	for failAt := 1; ; failAt++ {
		s := &server{t: t, failAt: failAt}
		h := httptest.NewServer(s)
		c := &Client{URL: h.URL}
		failed := false
		if _, err := c.ExportAll(context.Background(), "", rs); err != nil {
			var e *Error
			if failed = true; !errors.As(err, &e) || e.Status != 500 {
				t.Fatal(err)
			}
		}
		if !failed { // every call has had its turn
			h.Close()
			return
		}
		if _, err := c.ExportAll(context.Background(), "", rs); err != nil {
			t.Fatal(err)
		}
		whole := map[string]int{}
		for _, k := range s.runs {
			if !k.deleted && k.experiment == fmt.Sprint(len(s.experiments)-1) && k.status == "FINISHED" && len(k.params) > 50 && (len(k.files) > 3) == (k.tags[groupTag] == "") {
				whole[k.tags[tag]+k.tags[groupTag]]++
			}
		}
		h.Close()
		if len(whole) != len(rs)+1 { // and a parent
			t.Fatalf("an error at call %d: %v", failAt, whole)
		}
		for key, n := range whole {
			if n != 1 {
				t.Errorf("an error at call %d: %s is there %d times", failAt, key, n)
			}
		}
	}
}

// Files, system tags and parents: what the server's pages show of a run.
func TestExportAll(t *testing.T) {
	s := &server{t: t}
	h := httptest.NewServer(s)
	defer h.Close()
	c := &Client{URL: h.URL, Note: func(text string) { t.Error(text) }}
	rs := runs(t)
	for again := range 2 {
		n, err := c.ExportAll(context.Background(), "", rs)
		if err != nil || n[[]Outcome{Exported, There}[again]] != len(rs) {
			t.Fatal(n, err)
		}
	}
	children, parents := map[string][]*kept{}, map[string]*kept{}
	for i, k := range s.runs {
		if k.tags[groupTag] != "" {
			parents[fmt.Sprintf("run-%d", i)] = k
		} else if p := k.tags["mlflow.parentRunId"]; p != "" {
			children[p] = append(children[p], k)
		}
	}
	if len(parents) != 2 || len(children) != 2 || len(s.runs) != len(rs)+2 {
		t.Fatalf("%d parents of %d groups of repeats, %d runs", len(parents), len(children), len(s.runs))
	}
	for id, p := range parents {
		sum := 0.0
		for _, k := range children[id] {
			sum += k.metrics["result/accuracy"][0].Value
			if k.params["codec"] != p.params["codec"] || k.params["seed"] == "" || p.params["seed"] != "" {
				t.Errorf("%v below %v", k.params, p.params)
			}
		}
		n := len(children[id])
		got := p.metrics["result/accuracy"]
		if n != 2 || math.Abs(got[0].Value-sum/float64(n)) > 1e-12 || got[0].Step != n || p.status != "FINISHED" || p.name == "" {
			t.Errorf("%d children, parent %+v", n, p)
		}
	}
	for i, r := range rs {
		k := s.runs[i]
		if k.tags["mlflow.source.type"] != "LOCAL" || !strings.HasPrefix(k.tags["mlflow.source.name"], "gradlab run quickstart") {
			t.Errorf("tags %v", k.tags)
		}
		want, err := os.ReadFile(filepath.Join(r.Folder, "result.json"))
		if err != nil || !bytes.Equal(k.files["result.json"], want) || len(k.files) < 4 || k.files["status.json"] != nil {
			t.Errorf("%d files, %v", len(k.files), err)
		}
		if acc := k.metrics["test/accuracy"]; r.Result.VirtualSeconds > 0 {
			took := float64(acc[len(acc)-1].At-acc[0].At) / 1000
			if curve, err := r.Curve(); err != nil || math.Abs(took-curve.Evals[len(curve.Evals)-1].Seconds+curve.Evals[0].Seconds) > 2e-3 {
				t.Errorf("%v s between evaluations, %v", took, err)
			}
		}
	}
}

// A server that keeps files where they cannot be written says so once a run, and no file
// is sent where none is wanted.
func TestFilesThatStay(t *testing.T) {
	s := &server{t: t, elsewhere: true}
	h := httptest.NewServer(s)
	defer h.Close()
	var notes []string
	c := &Client{URL: h.URL, Note: func(text string) { notes = append(notes, text) }}
	rs := runs(t)[:2]
	if _, err := c.Export(context.Background(), "a", rs[0]); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "s3://bucket/run-0") {
		t.Error(notes, err)
	}
	// The secret that a killed run leaves is nobody's business.
	killed := *rs[0]
	killed.ID, killed.Folder = "killed", t.TempDir()
	for _, name := range []string{"token", "status.json", ".hidden", "links.json"} {
		if err := os.WriteFile(filepath.Join(killed.Folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.elsewhere = false
	if _, err := c.Export(context.Background(), "b", &killed); err != nil || len(s.runs[1].files) != 1 || s.runs[1].files["links.json"] == nil {
		t.Errorf("%v, %v", s.runs[1].files, err)
	}
	c.NoArtifacts = true
	if _, err := c.Export(context.Background(), "a", rs[1]); err != nil || len(s.runs[2].files) != 0 {
		t.Error(s.runs[2].files, err)
	}
}

// Batches stay within what the server takes at once.
func TestLongRuns(t *testing.T) {
	s := &server{t: t}
	h := httptest.NewServer(s)
	defer h.Close()
	c := &Client{URL: h.URL}
	s.runs = []*kept{{params: map[string]string{}, metrics: map[string][]metric{}}}
	var ps []pair
	for i := range 230 {
		ps = append(ps, pair{fmt.Sprintf("key.%d", i), "x"})
	}
	ms := make([]metric, 2500)
	for i := range ms {
		ms[i] = metric{Key: "m", Step: i}
	}
	if err := c.log(context.Background(), "run-0", ps, ms); err != nil {
		t.Fatal(err)
	}
	if k := s.runs[0]; len(k.params) != 230 || len(k.metrics["m"]) != 2500 {
		t.Errorf("%d parameters, %d metrics", len(k.params), len(k.metrics["m"]))
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer other.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer empty.Close()
	forgetful := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "get-by-name") {
			fmt.Fprint(w, `{"experiment":{"experiment_id":"1"}}`)
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer forgetful.Close()
	for address, want := range map[string]string{
		"": "no address", "localhost:5000": "no address", "file:///tmp": "no address", other.URL: "does not answer as an MLflow server",
		empty.URL: "has not an experiment_id", forgetful.URL: "has not a run_id",
	} {
		if _, err := (&Client{URL: address}).Export(context.Background(), "x", runs(t)[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
