// Package mlflow copies finished runs to an MLflow tracking server, over its REST
// API. Runs do not need the server: their folders are what counts, and may be
// exported whenever it can be reached, as often as one likes.
//
// The API is that of https://mlflow.org/docs/latest/rest-api.html, version 2.0,
// which servers since MLflow 1.0 answer.
package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client speaks to one server.
type Client struct {
	URL            string // such as http://localhost:5000
	Token          string // sent as bearer token; "" does not
	User, Password string // for basic authentication where there is no token
	HTTP           *http.Client

	NoArtifacts bool         // leave the files of run folders where they are
	Note        func(string) // is told what could not be copied; nil: nobody
}

// Error is what the server says when it refuses something.
type Error struct {
	Status  int    // of HTTP
	Code    string `json:"error_code"` // such as RESOURCE_DOES_NOT_EXIST
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return strings.TrimSpace(fmt.Sprintf("MLflow answers %d: %s %s", e.Status, e.Code, e.Message))
}

// most is how much of an answer is read.
const most = 16 << 20

// call sends in, if there is one, and reads out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	base, err := url.Parse(c.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return fmt.Errorf("%q is no address of an MLflow server; want http://HOST:PORT or https://…", c.URL)
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/api/2.0/mlflow/"+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	return c.send(r, time.Minute, out)
}

// send sends a request, with who asks, and reads out. limit is how long it may take;
// 0: as long as its context says.
func (c *Client) send(r *http.Request, limit time.Duration, out any) error {
	switch {
	case c.Token != "":
		r.Header.Set("Authorization", "Bearer "+c.Token)
	case c.User != "":
		r.SetBasicAuth(c.User, c.Password)
	}
	client := c.HTTP
	if client == nil {
		client = &http.Client{Timeout: limit}
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		e := &Error{Status: answer.StatusCode}
		if json.Unmarshal(b, e) != nil {
			e.Message = string(b[:min(len(b), 200)])
		}
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s does not answer as an MLflow server does: %w", c.URL, err)
	}
	return nil
}

// experiment finds the experiment of a name, or makes it.
func (c *Client) experiment(ctx context.Context, name string) (id string, err error) {
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err = c.call(ctx, http.MethodGet, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil, &found)
	if err == nil {
		return c.known(found.Experiment.ID, "experiments/get-by-name", "an experiment_id")
	}
	var e *Error
	if !errors.As(err, &e) || e.Code != "RESOURCE_DOES_NOT_EXIST" {
		return "", err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	if err = c.call(ctx, http.MethodPost, "experiments/create", map[string]any{"name": name}, &made); err != nil {
		return "", err
	}
	return c.known(made.ID, "experiments/create", "an experiment_id")
}

// known refuses an answer without an id: whatever is sent there is kept by nobody.
func (c *Client) known(id, path, what string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("%s does not answer as an MLflow server does: the answer to %s has not %s", c.URL, path, what)
	}
	return id, nil
}

// info is what the server keeps of a run beside its data.
type info struct {
	ID        string `json:"run_id"`
	Status    string `json:"status"`
	Artifacts string `json:"artifact_uri"`
}

// withTag finds the runs of an experiment that have a tag.
func (c *Client) withTag(ctx context.Context, experiment, tag, value string) ([]info, error) {
	var found struct {
		Runs []struct {
			Info info `json:"info"`
		} `json:"runs"`
	}
	err := c.call(ctx, http.MethodPost, "runs/search", map[string]any{
		"experiment_ids": []string{experiment}, "max_results": 100,
		"filter": fmt.Sprintf("tags.`%s` = '%s'", tag, value),
	}, &found)
	var out []info
	for _, r := range found.Runs {
		if _, bad := c.known(r.Info.ID, "runs/search", "a run_id of each run"); err == nil {
			err = bad
		}
		out = append(out, r.Info)
	}
	return out, err
}

// pair is a parameter or a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// metric is a value at a step and a time in milliseconds.
type metric struct {
	Key   string  `json:"key"`
	Value float64 `json:"value"`
	At    int64   `json:"timestamp"`
	Step  int     `json:"step"`
}

// What log-batch takes at once.
const (
	mostMetrics = 900 // of 1000 entities in all
	mostParams  = 100
)

// log sends parameters and metrics, in as many requests as it takes.
func (c *Client) log(ctx context.Context, run string, params []pair, metrics []metric) error {
	for len(params) > 0 || len(metrics) > 0 {
		p, m := params[:min(len(params), mostParams)], metrics[:min(len(metrics), mostMetrics)]
		if err := c.call(ctx, http.MethodPost, "runs/log-batch", map[string]any{"run_id": run, "params": p, "metrics": m}, nil); err != nil {
			return err
		}
		params, metrics = params[len(p):], metrics[len(m):]
	}
	return nil
}
