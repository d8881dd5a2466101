package experiments

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/internal/regular"
)

// recordedRates is the file of a run's folder that holds the rates it was billed
// at.
const recordedRates = "codecs.yaml"

// RecordedRates reads the rates that the run in a folder was billed at; nil: none
// were.
func RecordedRates(folder string) (*coding.Record, error) {
	file := filepath.Join(folder, recordedRates)
	b, err := regular.ReadFile(file, regular.Any)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return coding.ReadRecord(file, b)
}

// CodecNotes are the different notes of results, in order, for what stands under a
// table.
func CodecNotes(rs []*Result) (notes []string) {
	for _, r := range rs {
		if r == nil {
			continue
		}
		if n := r.CodecTime; n != "" && !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	return notes
}
