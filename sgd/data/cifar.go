package data

import (
	"fmt"
	"path"

	"github.com/gradlab/gradlab/sgd"
)

// The binary versions of CIFAR: records without a header, each one label byte
// (CIFAR-10) or a coarse and a fine one (CIFAR-100), then 32×32 red, green and
// blue bytes, row by row. CIFAR-100 is read with its fine labels.
const (
	cifarPixels = 3 * 32 * 32
	cifar10Rec  = 1 + cifarPixels
	cifar100Rec = 2 + cifarPixels
)

var cifarShape = sgd.Shape{C: 3, H: 32, W: 32}

// isCIFAR tells which CIFAR a file can be by its first bytes and size, 0 for
// neither. A size below 0 is not known yet.
func isCIFAR(head []byte, size int64) (k kind) {
	switch {
	case len(head) < 2 || size == 0:
	case head[0] < 10 && size > 0 && size%cifar10Rec == 0:
		return cifar10Kind
	case head[0] < 20 && head[1] < 100 && size > 0 && size%cifar100Rec == 0:
		return cifar100Kind
	}
	return otherKind
}

// parseCIFAR appends the records of b to m.
func parseCIFAR(b []byte, k kind, m *images) error {
	rec, classes := cifar10Rec, 10
	if k == cifar100Kind {
		rec, classes = cifar100Rec, 100
	}
	if len(b) == 0 || len(b)%rec != 0 {
		return fmt.Errorf("%d bytes are no whole number of %d-byte CIFAR records", len(b), rec)
	}
	m.sh, m.cls = cifarShape, classes
	for ; len(b) > 0; b = b[rec:] {
		y := b[rec-cifarPixels-1]
		if int(y) >= classes || rec == cifar100Rec && b[0] >= 20 {
			return fmt.Errorf("record %d has label %d of %d classes", len(m.label), y, classes)
		}
		m.label = append(m.label, int32(y))
		m.pix = append(m.pix, b[rec-cifarPixels:rec]...)
	}
	return nil
}

// loadCIFAR reads every binary file: those named test are the test part. Of two
// files with the same base name only the first counts.
func (t *tree) loadCIFAR(k kind) (l loaded, err error) {
	seen := map[string]bool{}
	for _, f := range t.of(k) {
		if base := path.Base(f.name); seen[base] {
			continue
		} else {
			seen[base] = true
		}
		b, err := t.read(f)
		if err != nil {
			return l, err
		}
		p := max(0, partOf(f.name))
		if l.parts[p] == nil {
			l.parts[p] = &images{}
		}
		if err := parseCIFAR(b, k, l.parts[p]); err != nil {
			return l, t.wrap(f.path(), err)
		}
	}
	return l, nil
}
