package experiments

import (
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
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// A run's folder:
//
//	config.yaml      the resolved configuration; `gradlab run FOLDER/config.yaml` runs it again
//	codecs.yaml      the rates that its codecs were billed at, unless that is one, or nothing
//	env.json         what it ran on
//	about.json       name, tags and note, if there are any
//	metrics.jsonl    progress and evaluations, appended (metrics.go); a torn last line is dropped
//	events.out.…     the same for TensorBoard
//	status.json      running | done | stopped | failed, written by rename
//	order.log        with observe=order_log: in which order workers' words reached the servers
//	result.json      the Result, once there is one
//	checkpoint/      the last two checkpoints, written atomically (checkpoint.go)
//	model.safetensors  final parameters
//	extends.json     of a run that extends another one: which, and from which step
//	links.json       use of every link of the virtual network
//	data.json        what the data set was like: samples, their shape, classes
//	sizes.gz         of runs that others can be priced from: payload sizes that depend on data
//	trace.json.gz    with observe=trace: for ui.perfetto.dev
//	timeline.svg     with observe=trace: the same as a picture
type folder struct {
	path    string
	metrics scratch      // metrics.jsonl, open at its end; nil: not yet
	lines   []line       // of it
	base    counters     // what earlier legs of a resumed run already counted
	network *NetworkUse  // of this leg, on a virtual network
	carried comm.Carried // by the links of this leg, between processes
	cut     string       // what a trace of it leaves out; "": nothing, or there is none
	failed  int          // checkpoints in a row that could not be written
	told    atomic.Bool  // its ranks were told to stop
	heard   atomic.Bool  // a stop was asked for through the folder, before that
	unsaved error        // why the last one could not be
	passed  error        // damage of a newer checkpoint than the one gone on from
	decides []decided    // what else than the configuration's hash decides the result
	virtual disk         // that checkpoints and metrics are written to; nil: the machine's
}

// disk is where the folder's checkpoints and metrics are written.
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
func linksAt(s *checkpoint.State) (c linkCounters) {
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
	// Metrics are those of the model; the first is what runs are compared by.
	Metrics []sgd.Metric `json:"metrics,omitempty"`
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
	if err := sgd.CheckMetrics(s.Metrics); err != nil {
		return fmt.Errorf("%s, key \"metrics\": %w", filepath.Join(path, "status.json"), err)
	}
	return nil
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
