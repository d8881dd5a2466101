package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

const metricsFile = "metrics.jsonl"

// Line is a line of metrics.jsonl.
type Line struct {
	Kind     string           `json:"kind"` // progress | eval | members
	Progress *record.Progress `json:"progress,omitempty"`
	Eval     *record.Eval     `json:"eval,omitempty"`

	Members *train.Membership `json:"members,omitempty"` // of an elastic run, at its begin and when they change
}

// parseMetric reads a line; nil: it is torn or damaged, or of a kind that is not known.
func parseMetric(b []byte) *Line {
	var m Line
	if json.Unmarshal(b, &m) != nil || m.Progress == nil && m.Eval == nil && m.Members == nil {
		return nil
	}
	return &m
}

// ParseMetrics reads the whole lines of a metrics file; what is no such line,
// a torn one or one of a kind from later versions, is left out.
func ParseMetrics(b []byte) []Line {
	var out []Line
	for text := range bytes.Lines(b) {
		if m := parseMetric(text); m != nil {
			out = append(out, *m)
		}
	}
	return out
}

// line is a written line of metrics.jsonl.
type line struct {
	step int    // of the metric; -1: a resumed run writes the line anew, whatever its step
	sum  uint64 // the first eight bytes of the line's SHA-256
}

func lineOf(m *Line, text []byte) line {
	h := sha256.Sum256(text)
	l := line{-1, binary.BigEndian.Uint64(h[:])}
	switch {
	case m.Progress != nil:
		l.step = m.Progress.Step
	case m.Eval != nil && !m.Eval.Last:
		l.step = m.Eval.Step
	case m.Members != nil:
		l.step = m.Members.Step
	}
	return l
}

// upTo reports whether a run that goes on from a checkpoint of a step keeps the line.
func (l line) upTo(step int) bool { return l.step >= 0 && l.step <= step }

// metricsSum is what metrics.jsonl held when a checkpoint was written: how many lines of steps
// up to the checkpoint's, and the SHA-256 of their sums.
type metricsSum struct {
	Lines  int    `json:"lines"`
	SHA256 string `json:"sha256"`
}

// recordOf is the record of the first lines, at most n, of steps up to a checkpoint's.
func recordOf(lines []line, step, n int) metricsSum {
	h, r := sha256.New(), metricsSum{}
	var b [8]byte
	for _, l := range lines {
		if r.Lines < n && l.upTo(step) {
			binary.BigEndian.PutUint64(b[:], l.sum)
			h.Write(b[:])
			r.Lines++
		}
	}
	r.SHA256 = hex.EncodeToString(h.Sum(nil))
	return r
}

// readMetrics reads the lines of metrics.jsonl that a run keeps which goes on from a
// checkpoint of a step, with their text and evaluations.
func (f *folder) readMetrics(from int) (lines []line, text []byte, evals []record.Eval, err error) {
	old, err := regular.ReadFile(f.file(metricsFile), regular.Any)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, err
	}
	for b := range bytes.Lines(old) {
		m, b := parseMetric(b), bytes.TrimSuffix(b, []byte{'\n'})
		if m == nil {
			continue
		}
		l := lineOf(m, b)
		if !l.upTo(from) {
			continue
		}
		if m.Eval != nil {
			evals = append(evals, *m.Eval)
		}
		lines, text = append(lines, l), append(append(text, b...), '\n')
	}
	return lines, text, evals, nil
}

// checkMetrics compares metrics.jsonl with what it held when a checkpoint was written.
func (f *folder) checkMetrics(m *manifest) error {
	lines, _, _, err := f.readMetrics(m.Version)
	if err != nil {
		return err
	}
	switch got := recordOf(lines, m.Version, m.Metrics.Lines); {
	case got.Lines < m.Metrics.Lines:
		return &damageError{path: f.file(metricsFile), cause: fmt.Sprintf("of %d lines up to the checkpoint of step %d, %d can be read", m.Metrics.Lines, m.Version, got.Lines)}
	case got != m.Metrics:
		return &damageError{path: f.file(metricsFile), cause: fmt.Sprintf("its lines up to the checkpoint of step %d are not what was written", m.Version)}
	}
	return nil
}

// appendMetrics opens metrics.jsonl behind its last whole line. Lines of steps
// after the checkpoint that a resumed run begins from are dropped.
func (f *folder) appendMetrics(from int) (evals []record.Eval, err error) {
	lines, text, evals, err := f.readMetrics(from)
	if err != nil {
		return nil, err
	}
	if err := writeTo(f.disk(), f.file(metricsFile), text); err != nil {
		return nil, err
	}
	f.lines = lines
	f.metrics, err = f.disk().append(f.file(metricsFile))
	return evals, err
}

// metric appends a line to metrics.jsonl.
func (f *folder) metric(m Line) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err = f.metrics.Write(append(b, '\n')); err == nil {
		f.lines = append(f.lines, lineOf(&m, b))
	}
	return err
}

// syncMetrics makes the lines so far outlive a power failure, and returns their record for
// a checkpoint of a step.
func (f *folder) syncMetrics(step int) (metricsSum, error) {
	if f.metrics != nil {
		if err := f.metrics.Sync(); err != nil {
			return metricsSum{}, err
		}
	}
	return recordOf(f.lines, step, len(f.lines)), nil
}
