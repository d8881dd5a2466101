package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"sync"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Digits is the 1,797 handwritten digits of the UCI repository, 1×8×8 pixels of
// 0..16, ten classes. They are part of the program and so need no files; see
// NOTICE for origin and licence.
//
// One fifth of each class, picked by a fixed permutation, is the test set: 359
// samples against 1,438 for training. The thirteen writers are in both parts,
// as in most published splits, so accuracies speak of these writers only. Inputs are (v/16 − 0.305)/0.376.
type Digits struct{}

var _ = Sets.Add("digits", "1,797 handwritten digits, 8×8, built in", Digits{})

//go:embed digits.csv.gz
var digitsCSV []byte

// Open serves the built-in digits. The shift of augmentation is one pixel.
func (Digits) Open(o Options) (sgd.Dataset, error) {
	parts, err := digits()
	if err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: digits: %w", err)
	}
	table := newScale(1, 16, []float32{0.305}, []float32{0.376})
	train := &held{images: parts[0], view: view{scale: table, pad: 1}}
	test := &held{images: parts[1], view: view{scale: table}}
	ds := dataset(train, test, o, false)
	ds.Hash = digest(parts[0], parts[1])
	return ds, nil
}

// digits parses the embedded file once: 64 pixels and the class a line.
var digits = sync.OnceValues(func() (parts [2]*images, err error) {
	zr, err := gzip.NewReader(bytes.NewReader(digitsCSV))
	if err != nil {
		return parts, err
	}
	lines, err := csv.NewReader(zr).ReadAll()
	if err != nil {
		return parts, err
	}
	all := images{sh: sgd.Shape{C: 1, H: 8, W: 8}, cls: 10}
	var count [10]int
	for n, line := range lines {
		if len(line) != 65 {
			return parts, fmt.Errorf("line %d has %d fields", n+1, len(line))
		}
		for k, field := range line {
			v, err := strconv.ParseUint(field, 10, 5)
			if err != nil || v > 16 || k == 64 && v > 9 {
				return parts, fmt.Errorf("line %d: %q", n+1, field)
			}
			if k < 64 {
				all.pix = append(all.pix, uint8(v))
				continue
			}
			all.label = append(all.label, int32(v))
			count[v]++
		}
	}
	for p := range parts {
		parts[p] = &images{sh: all.sh, cls: all.cls}
	}
	var seen [10]int
	for i, y := range all.label {
		p := 0
		if place := rng.New(0, "digits-split").With(uint64(y)).Permute(seen[y], count[y]); place < (count[y]+2)/5 {
			p = 1
		}
		seen[y]++
		parts[p].label = append(parts[p].label, y)
		parts[p].pix = append(parts[p].pix, all.pix[i*64:(i+1)*64]...)
	}
	return parts, nil
})
