// Package serve shows running and finished runs in a browser, as they go: a
// table of all of them, curves of those chosen, ranks, staleness, a button that
// stops a run, and the report of the finished ones.
//
// It is meant for one's own machine and oneself. It answers only requests that name a
// loopback host, which keeps pages of other sites out, and tells and changes nothing
// without the token: other users of the machine reach the port, too. It comes as
// ?token=…, or in a header: X-Gradlab-Token, or Authorization: Bearer. Runs are named by
// a hash of their folder: no path of a request ever reaches the file system.
//
//	GET  /                    the page, which knows nothing; also its style and script
//	GET  /api/runs            rows of all runs
//	GET  /api/runs/KEY        one run: settings, ranks, staleness
//	GET  /api/figures?run=KEY curves of runs, drawn
//	GET  /api/events          rows as they change, as server-sent events
//	POST /api/runs/KEY/stop   stops a run after a checkpoint; wants the token in a header
//	GET  /report              the report of the runs that are done
package serve

import (
	"bytes"
	"context"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Server answers requests about the runs that its watcher knows.
type Server struct {
	watch *Watch
	token string
	mux   *http.ServeMux

	drawing sync.Mutex
	drawn   []byte // the report of version
	version uint64 // of the watch
}

// New makes a server; token is what every request must bring along.
func New(w *Watch, token string) *Server {
	s := &Server{watch: w, token: token, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /{$}", s.page)
	s.mux.HandleFunc("GET /style.css", asset("text/css; charset=utf-8", report.Style()+styleText))
	s.mux.HandleFunc("GET /serve.js", asset("text/javascript; charset=utf-8", scriptText))
	s.mux.HandleFunc("POST /api/runs/{key}/stop", s.stop)
	told := func(path string, h http.Handler) { s.mux.Handle("GET "+path, s.known(h)) }
	told("/api/runs", http.HandlerFunc(s.runs))
	told("/api/runs/{key}", http.HandlerFunc(s.run))
	told("/api/figures", http.HandlerFunc(s.figures))
	told("/api/events", http.HandlerFunc(s.events))
	told("/report", http.HandlerFunc(s.report))
	return s
}

// known answers only those who know the token.
func (s *Server) known(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		for _, t := range []string{r.URL.Query().Get("token"), r.Header.Get("X-Gradlab-Token"), bearer} {
			if s.isToken(t) {
				h.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, wrongToken, http.StatusForbidden)
	})
}

const wrongToken = "wrong token; open the address that gradlab serve printed"

func (s *Server) isToken(t string) bool {
	return subtle.ConstantTimeCompare([]byte(t), []byte(s.token)) == 1
}

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

// ServeHTTP answers requests to loopback hosts.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.Host) {
		http.Error(w, "this server answers on loopback only", http.StatusMisdirectedRequest)
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	s.mux.ServeHTTP(w, r)
}

// loopback is true for host names and addresses, with or without a port, that
// are this machine's own.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Listen opens a loopback address; others are refused.
func Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !loopback(host) {
		return nil, fmt.Errorf("%s is not a loopback address; to look at it from elsewhere, forward the port (ssh -L)", address)
	}
	return net.Listen("tcp", address)
}

func asset(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body))
	}
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(pageText))
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func (s *Server) runs(w http.ResponseWriter, _ *http.Request) {
	rows, _, _, _ := s.watch.Rows(0)
	writeJSON(w, rows)
}

// entry finds the run that a request names, or answers that there is none.
func (s *Server) entry(w http.ResponseWriter, r *http.Request) (entry, bool) {
	e, ok := s.watch.find(r.PathValue("key"))
	if !ok {
		http.Error(w, "no such run", http.StatusNotFound)
	}
	return e, ok
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	e, ok := s.entry(w, r)
	if !ok {
		return
	}
	d, err := detail(e)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, d)
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	if !s.isToken(r.Header.Get("X-Gradlab-Token")) {
		http.Error(w, wrongToken, http.StatusForbidden)
		return
	}
	e, ok := s.entry(w, r)
	if !ok {
		return
	}
	if err := experiments.RequestStop(e.run.Folder); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// most is the number of runs drawn together.
const most = 16

func (s *Server) figures(w http.ResponseWriter, r *http.Request) {
	var es []entry
	for _, key := range r.URL.Query()["run"] {
		if e, ok := s.watch.find(key); ok && len(es) < most {
			es = append(es, e)
		}
	}
	if len(es) == 0 {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	d, err := report.Draw(panels(es)...)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, d)
}

// beat is how often a stream without news shows that it lives.
const beat = 15 * time.Second

// events streams rows: all of them first, then those that changed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	since := uint64(0)
	for {
		rows, all, version, changed := s.watch.Rows(since)
		message := ": still here\n\n"
		if all || len(rows) > 0 {
			b, err := json.Marshal(rows)
			if err != nil {
				return
			}
			name := "changed"
			if all {
				name = "all"
			}
			message = fmt.Sprintf("event: %s\ndata: %s\n\n", name, b)
		}
		if _, err := fmt.Fprint(w, message); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		since = max(version, 1) // of nothing, everything was told
		timer := time.NewTimer(beat)
		select {
		case <-r.Context().Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		if r.Context().Err() != nil {
			return
		}
	}
}

func (s *Server) report(w http.ResponseWriter, _ *http.Request) {
	b, err := s.drawReport()
	switch {
	case errors.Is(err, errDraw):
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Security-Policy", report.Policy()+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b)
}

var errDraw = errors.New("the report cannot be drawn")

// drawReport draws the report anew only when runs have changed.
func (s *Server) drawReport() ([]byte, error) {
	s.drawing.Lock()
	defer s.drawing.Unlock()
	version := s.watch.Version()
	if s.drawn != nil && s.version == version {
		return s.drawn, nil
	}
	var runs []*store.Run
	for _, e := range s.watch.all() {
		runs = append(runs, e.run)
	}
	p, err := report.New(runs, record.Goal{})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := p.HTML(&b); err != nil {
		return nil, fmt.Errorf("%w: %w", errDraw, err)
	}
	s.drawn, s.version = b.Bytes(), version
	return s.drawn, nil
}

// How long a connection may take to say what it wants, and may lie idle.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
)

// Run serves on a listener until the context ends. Streams end with it.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := h.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
