package ask

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
)

// Measurement is a time that somebody measured on a cluster.
type Measurement struct {
	Where   string   // file:line
	Keys    []string // key=value, over those of the command line
	Rate    float64  // samples a second of all workers; 0: Seconds is given
	Seconds float64  // of a step, or of an all-reduce
	Bytes   int      // of the all-reduce; 0: it is a step
	Groups  [][]int  // ranks that sum among themselves, all groups at once; none: all ranks sum
}

// ReadMeasurements reads a file of measurements: a table (CSV), what nccl-tests'
// all_reduce_perf prints, what Horovod's pytorch_synthetic_benchmark prints, what PyTorch's
// ImageNet example prints, or gradlab bench collectives --json; or, of a folder, the runs
// in it that were on a real clock, whoever computed their gradients.
func ReadMeasurements(file string) ([]Measurement, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return measuredRuns(file)
	}
	text, err := regular.ReadText(file, regular.Text)
	if err != nil {
		return nil, err
	}
	return readMeasurements(file, text)
}

func readMeasurements(file string, text []byte) (out []Measurement, err error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s is a text in UTF-16; save it as UTF-8", file)
	}
	s := strings.TrimPrefix(string(text), "\ufeff") // a mark that Excel sets
	switch lines := bareLines(s); {
	case strings.HasPrefix(strings.TrimSpace(s), "{"):
		out, err = readBench(file, []byte(s))
	case strings.Contains(s, "algbw") && strings.Contains(s, "busbw"):
		out, err = readNCCL(file, lines)
	case strings.Contains(s, "Total img/sec on"):
		out, err = readHorovod(file, lines)
	case slices.ContainsFunc(lines, epochLine.MatchString):
		out, err = readEpochs(file, lines)
	default:
		out, err = readTable(file, s)
	}
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no measurements", file)
	}
	for _, m := range out {
		if m.Rate < 0 || m.Seconds < 0 || math.IsNaN(m.Rate+m.Seconds) || math.IsInf(m.Rate+m.Seconds, 0) || m.Rate == 0 && m.Seconds == 0 {
			return nil, fmt.Errorf("%s: a rate or a time is above 0 and finite", m.Where)
		}
	}
	return out, nil
}

// columns are what a table's heads may be beside keys.
var columns = map[string]string{
	"model": "timing", "gpus": "workers", "devices": "workers", "bandwidth": "network.bandwidth",
}

// readTable reads CSV: a column a key, and one of the time.
func readTable(file, text string) ([]Measurement, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.Comment, r.TrimLeadingSpace = '#', true
	heads, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	times, known := 0, map[string]bool{}
	for _, k := range config.Settings() {
		known[k.Name] = true
	}
	for i, h := range heads {
		h = strings.ToLower(strings.TrimSpace(h))
		if name, ok := columns[h]; ok {
			h = name
		}
		switch heads[i] = h; h {
		case "images_per_second", "samples_per_second", "step_seconds", "step_ms":
			times++
		case "source", "note":
		default:
			if !known[h] {
				return nil, fmt.Errorf("%s:1: column %q is none of model, gpus, a key (gradlab list keys), images_per_second, samples_per_second, step_seconds, step_ms, source, note", file, h)
			}
		}
	}
	if times != 1 {
		return nil, fmt.Errorf("%s:1: want one column of images_per_second, samples_per_second, step_seconds, step_ms; there are %d", file, times)
	}
	var out []Measurement
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := r.FieldPos(0)
		m := Measurement{Where: fmt.Sprintf("%s:%d", file, line)}
		for i, v := range row {
			v = strings.TrimSpace(v)
			switch h := heads[i]; h {
			case "source", "note":
			case "images_per_second", "samples_per_second", "step_seconds", "step_ms":
				x, err := strconv.ParseFloat(v, 64)
				if err != nil {
					return nil, fmt.Errorf("%s: column %s: %q is no number", m.Where, h, v)
				}
				switch h {
				case "step_seconds":
					m.Seconds = x
				case "step_ms":
					m.Seconds = x / 1000
				default:
					m.Rate = x
				}
			default:
				if v != "" {
					m.Keys = append(m.Keys, h+"="+v)
				}
			}
		}
		out = append(out, m)
	}
}

var (
	horovodLine = regexp.MustCompile(`^(Model|Batch size|Number of (?:GPU|CPU)s|Total img/sec on \d+ (?:GPU|CPU)\(s\)): *(\S+)`)
	epochLine   = regexp.MustCompile(`^Epoch: \[\d+\].*?Time\s+[0-9.]+ \(\s*([0-9.]+)\)`)
)

// readHorovod reads what pytorch_synthetic_benchmark prints, one run or several.
func readHorovod(file string, lines []string) (out []Measurement, err error) {
	var keys []string
	for n, line := range lines {
		m := horovodLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		switch {
		case m[1] == "Model":
			keys = append([]string(nil), "timing="+strings.ToLower(m[2]))
		case m[1] == "Batch size":
			keys = append(keys, "batch="+m[2])
		case strings.HasPrefix(m[1], "Number of"):
			keys = append(keys, "workers="+m[2])
		default:
			rate, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
			}
			out = append(out, Measurement{Where: fmt.Sprintf("%s:%d", file, n+1), Keys: slices.Clone(keys), Rate: rate})
		}
	}
	return out, nil
}

// readEpochs reads the progress of PyTorch's ImageNet example: the mean time of a step,
// from its last line.
func readEpochs(file string, lines []string) ([]Measurement, error) {
	for n := len(lines) - 1; n >= 0; n-- {
		if m := epochLine.FindStringSubmatch(lines[n]); m != nil {
			x, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
			}
			return []Measurement{{Where: fmt.Sprintf("%s:%d", file, n+1), Seconds: x}}, nil
		}
	}
	return nil, nil
}

// readBench reads gradlab bench collectives --json: all-reduces over gRPC, between
// processes of one machine, each of which counts as a host.
func readBench(file string, text []byte) (out []Measurement, err error) {
	var b struct {
		AllReduces []struct {
			Procs, Bytes   int
			Name, Topology string
			Microseconds   struct{ Median float64 }
		} `json:"all_reduces"`
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, a := range b.AllReduces {
		if a.Name != "grpc" || a.Microseconds.Median <= 0 {
			continue
		}
		out = append(out, Measurement{
			Where: fmt.Sprintf("%s, all-reduce %d", file, i+1), Seconds: a.Microseconds.Median / 1e6, Bytes: a.Bytes,
			Keys: []string{fmt.Sprintf("workers=%d", a.Procs), "topology=" + a.Topology},
		})
	}
	return out, nil
}
