package experiments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/train"
)

// A run's folder:
//
//	config.yaml      the resolved configuration; `gradlab run FOLDER/config.yaml` runs it again
//	codecs.yaml      the rates that its codecs were billed at, unless that is one, or nothing
//	env.json         what it ran on
//	about.json       name, tags and note, if there are any
//	metrics.jsonl    progress and evaluations, appended; a torn last line is dropped
//	events.out.…     the same for TensorBoard
//	status.json      running | done | stopped | failed, written by rename
//	order.log        with order_log: in which order workers' words reached the servers
//	result.json      the Result, once there is one
//	checkpoint/      the last two checkpoints, written atomically (checkpoint.go)
//	model.safetensors  final parameters
//	extends.json     of a run that extends another one: which, and from which step
//	links.json       use of every link of the virtual network
//	data.json        what the data set was like: samples, their shape, classes
//	sizes.gz         of runs that others can be priced from: payload sizes that depend on data
//	trace.json.gz    with trace=true: for ui.perfetto.dev
//	timeline.svg     with trace=true: the same as a picture
type folder struct {
	path    string
	metrics *os.File
	base    counters     // what earlier legs of a resumed run already counted
	network *NetworkUse  // of this leg, on a virtual network
	carried comm.Carried // by the links of this leg, between processes
	cut     string       // what a trace of it leaves out; "": nothing, or there is none
	failed  int          // checkpoints in a row that could not be written
	told    atomic.Bool  // its ranks were told to stop
	heard   atomic.Bool  // a stop was asked for through the folder, before that
	unsaved error        // why the last one could not be
	passed  error        // damage of a newer checkpoint than the one gone on from
	damaged string       // lines of metrics.jsonl that cannot be read; "": none
	decides []decided    // what else than the configuration's hash decides the result
	virtual disk         // that checkpoints are written to; nil: the machine's
}

// disk is what the folder's checkpoints are written to.
func (f *folder) disk() disk {
	if f.virtual == nil {
		return machine{}
	}
	return f.virtual
}

// counters are totals that go on over a resume.
type counters struct {
	Up   uint64  `json:"bytes_up"`
	Down uint64  `json:"bytes_down"`
	Raw  uint64  `json:"raw_bytes,omitempty"`
	BF16 uint64  `json:"bf16_bytes,omitempty"`
	Wall float64 `json:"wall_seconds"`
	Now  float64 `json:"clock_seconds"` // the net's clock

	Links linkCounters `json:"links,omitzero"`

	Lost []string `json:"lost,omitempty"` // workers that died
}

// linkCounters are what links between processes carried, as a Result has it.
type linkCounters struct {
	Wire     uint64 `json:"wire_bytes"`
	Shared   uint64 `json:"shared_bytes"`
	Report   uint64 `json:"report_bytes"`
	Overhead uint64 `json:"overhead_bytes"`
}

// linksAt is what links had carried at a checkpoint. What was handed to them by then
// counts, even if it was still queued.
func linksAt(s *train.State) (c linkCounters) {
	at := func(name string) uint64 { return uint64(s.Ints[name]) }
	c.Shared, c.Report = at("shared"), at("report")
	c.Wire = max(at("wire")+c.Shared, at("body"))
	c.Overhead = c.Wire - at("body")
	return c
}

// linksOf is what links carried in the legs up to a checkpoint: what the result of a
// stopped run tells of it, which knows the end of the leg too, or else the
// checkpoint's own counts.
func (f *folder) linksOf(m *manifest) linkCounters {
	var r Result
	if err := readJSON(f.file("result.json"), &r); err == nil && r.Status == "stopped" && r.Steps == m.Version {
		return linkCounters{r.WireBytes, r.SharedBytes, r.ReportBytes, r.OverheadBytes}
	}
	return m.Counters.Links
}

// Schema is the version of the run folders written here, and read.
const Schema = 1

// Status is the content of status.json.
type Status struct {
	Schema int    `json:"schema"`
	State  string `json:"state"` // running | done | stopped | failed
	Recipe string `json:"recipe"`
	Run    string `json:"run"`
	Hash   string `json:"config_hash"`
	Step   int    `json:"step"`
	Error  string `json:"error,omitempty"`
	// Restarts is how often an elastic run has gone back to its last checkpoint by itself.
	Restarts int       `json:"restarts,omitempty"`
	Started  time.Time `json:"started,omitzero"` // this leg, if the run was resumed
	Updated  time.Time `json:"updated"`
	Lease    *Lease    `json:"lease,omitempty"` // who writes to the folder; nil: nobody
}

// Check says why a folder of this status is not read here.
func (s Status) Check(path string) error {
	if s.Schema != Schema {
		return fmt.Errorf("%s was written by another gradlab (schema %d, this one reads schema %d); read it by that one", path, s.Schema, Schema)
	}
	return nil
}

// Metric is a line of metrics.jsonl.
type Metric struct {
	Kind     string          `json:"kind"` // progress | eval | members
	Progress *train.Progress `json:"progress,omitempty"`
	Eval     *train.Eval     `json:"eval,omitempty"`

	Members *train.Membership `json:"members,omitempty"` // of an elastic run, at its begin and when they change
}

// Who may read a run's folder: its owner, or with --shared all users of the machine.
const (
	private fs.FileMode = 0o700
	shared  fs.FileMode = 0o755
)

// permOf is who may read the files of a folder: who may read the folder.
func permOf(dir string) fs.FileMode {
	info, err := os.Stat(dir)
	if err != nil {
		return private & 0o666
	}
	return info.Mode().Perm() & 0o644
}

// createFolder makes a fresh folder base, base-2, base-3, …, for those whom perm says.
func createFolder(base string, perm fs.FileMode) (*folder, error) {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return nil, err
	}
	path := base
	for i := 2; ; i++ {
		err := os.Mkdir(path, perm)
		if err == nil {
			return &folder{path: path}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		path = fmt.Sprintf("%s-%d", base, i)
	}
}

// readConfig reads the configuration that a run's folder keeps.
func readConfig(path string) (config.Config, error) {
	b, err := regular.ReadFile(filepath.Join(path, "config.yaml"), regular.Any)
	if err != nil {
		return config.Config{}, err
	}
	c, _, err := config.ParseConfig(b)
	return c, err
}

func (f *folder) file(parts ...string) string {
	return filepath.Join(append([]string{f.path}, parts...)...)
}

func writeJSON(path string, v any) error { return writeJSONTo(machine{}, path, v) }

func writeJSONTo(d disk, path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeTo(d, path, append(b, '\n'))
}

func readJSON(path string, v any) error {
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// appendMetrics opens metrics.jsonl behind its last whole line; lines of steps
// after the checkpoint that a resumed run begins from are dropped.
func (f *folder) appendMetrics(from int) (evals []train.Eval, err error) {
	path := f.file("metrics.jsonl")
	old, err := regular.ReadFile(path, regular.Any)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f.damaged = damagedLines(path, old)
	var keep bytes.Buffer
	for _, m := range ParseMetrics(old) {
		step := 0
		switch {
		case m.Progress != nil:
			step = m.Progress.Step
		case m.Eval != nil:
			step = m.Eval.Step
		case m.Members != nil:
			step = m.Members.Step
		}
		if step > from || (m.Eval != nil && m.Eval.Last) {
			continue
		}
		if m.Eval != nil {
			evals = append(evals, *m.Eval)
		}
		b, _ := json.Marshal(m)
		keep.Write(append(b, '\n'))
	}
	if err := writeFile(path, keep.Bytes()); err != nil {
		return nil, err
	}
	f.metrics, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	return evals, err
}

// ParseMetrics reads the whole lines of a metrics file; what is no such line,
// a torn one or one of a kind from later versions, is left out.
func ParseMetrics(b []byte) []Metric {
	var out []Metric
	for line := range bytes.Lines(b) {
		var m Metric
		if json.Unmarshal(line, &m) == nil && (m.Progress != nil || m.Eval != nil || m.Members != nil) {
			out = append(out, m)
		}
	}
	return out
}

// damagedLines says which whole lines of a metrics file are not what was written; "":
// none. A torn last line is what a process leaves that is killed.
func damagedLines(path string, b []byte) string {
	n, count, first := 0, 0, 0
	for line := range bytes.Lines(b) {
		if n++; line[len(line)-1] == '\n' && !json.Valid(line) {
			if count++; first == 0 {
				first = n
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s is damaged: %d of its lines cannot be read, the first of them line %d, and are left out of the record", path, count, first)
}

func (f *folder) metric(m Metric) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = f.metrics.Write(append(b, '\n'))
	return err
}

// environment describes what a run ran on.
func environment(args []string) map[string]any {
	model, features, kernels := Processor()
	env := map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		"cpu": model, "features": features, "kernels": kernels, "cores": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0), "args": args,
	}
	if h, err := os.Hostname(); err == nil {
		env["host"] = h
	}
	v := ThisVersion()
	env["version"] = v.String()
	if v.Revision != "" {
		env["vcs.revision"], env["vcs.modified"] = v.Revision, strconv.FormatBool(v.Modified)
	}
	return env
}
