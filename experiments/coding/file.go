package coding

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/regular"
)

// Load reads a table by name or path. A file may also hold speeds alone, in bytes
// of float32 gradient a second, 0 for no time:
//
//	qsgd(bits=4): {encode: 2e9, decode: 5e9}
func Load(name string) (*hardware.CodecTable, error) {
	t, err := hardware.LoadCodecs(name)
	if err == nil {
		return t, nil
	}
	b, e := regular.ReadText(name, regular.Text)
	var keys map[string]any
	if e != nil || yaml.Unmarshal(b, &keys) != nil || keys["rates"] != nil {
		return nil, err
	}
	var speeds map[string]Stated
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&speeds); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w; want a table as gradlab bench codecs writes it, or codecs with encode and decode, as in 'qsgd(bits=4): {encode: 2e9, decode: 5e9}'", name, err)
	}
	return StatedTable(name, speeds)
}

// Stated is the speed of a codec on a device, in bytes of float32 gradient a
// second; 0: it takes no time.
type Stated struct{ Encode, Decode float64 }

// StatedTable is a table of speeds stated for a device, by spec text.
func StatedTable(name string, speeds map[string]Stated) (*hardware.CodecTable, error) {
	t := &hardware.CodecTable{Name: name, Processor: "speeds as stated"}
	for _, spec := range slices.Sorted(maps.Keys(speeds)) {
		s := speeds[spec]
		f, err := compress.Parse(spec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r := hardware.CodecRate{Codec: compress.Spec(f), Block: Any, Elements: []int{1}, Encode: []float64{0}, Decode: []float64{0}}
		for at, x := range map[*float64]float64{&r.Encode[0]: s.Encode, &r.Decode[0]: s.Decode} {
			if !(x >= 0) || math.IsInf(x, 0) {
				field := map[bool]string{true: "encode", false: "decode"}[at == &r.Encode[0]]
				return nil, fmt.Errorf("%s: %s: %s is %v; want bytes a second, finite, or 0 for no time", name, spec, field, x)
			}
			if x > 0 {
				*at = 4e9 / x
			}
		}
		t.Rates = append(t.Rates, r)
	}
	return t, nil
}

// Record is the rates that a run was billed at.
type Record struct {
	Key    string // device.codec of the run
	Tables []*hardware.CodecTable
}

// Text is the record as a file.
func (r *Record) Text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "device.codec: %q   # the rates that this run was billed at; --resume, replay, whatif and a run of config.yaml beside it take them\n", r.Key)
	for _, t := range r.Tables {
		b.WriteString("---\n")
		b.Write(t.Text())
	}
	return b.Bytes()
}

// ReadRecord reads a record's text; file is for messages.
func ReadRecord(file string, b []byte) (*Record, error) {
	parts := bytes.Split(b, []byte("\n---\n"))
	var head map[string]string
	if err := yaml.Unmarshal(parts[0], &head); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := &Record{Key: head["device.codec"]}
	for _, p := range parts[1:] {
		t, err := hardware.ReadCodecs(file, p)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, t)
	}
	return r, nil
}
