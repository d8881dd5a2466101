package data

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// loaded is a set read into memory.
type loaded struct {
	parts [2]*images // train, test
	notes []string
	left  int // pictures left out, as they cannot be read
}

// load reads the tree in the best of the formats the set can come in. keep is
// the folder for decoded pictures, "" for none.
func (t *tree) load(r *recipe, keep string, o Options) (l loaded, err error) {
	switch {
	case slices.Contains(r.kinds, idxKind) && len(t.of(idxKind)) > 0:
		l, err = t.loadIDX(r)
	case slices.Contains(r.kinds, cifar10Kind) && len(t.of(cifar10Kind)) > 0:
		l, err = t.loadCIFAR(cifar10Kind)
	case slices.Contains(r.kinds, cifar100Kind) && len(t.of(cifar100Kind)) > 0:
		l, err = t.loadCIFAR(cifar100Kind)
	case slices.Contains(r.kinds, pickleKind) && len(t.of(pickleKind)) > 0:
		l, err = t.loadBatches(r)
	case len(t.of(imageKind)) > 0:
		if l, err = t.loadImages(r, keep, o); err == nil {
			if note := t.leftOut(); note != "" {
				l.notes = append(l.notes, note)
			}
		}
	default:
		return l, fmt.Errorf("%s: nothing in it is recognised as %s", t.root, r.name)
	}
	if err != nil {
		return l, err
	}
	for p, m := range l.parts {
		if m == nil {
			return l, fmt.Errorf("%s: the %s part is missing", t.root, [2]string{"training", "test"}[p])
		}
		if err := m.check(); err != nil {
			return l, fmt.Errorf("%s: %s part: %w", t.root, [2]string{"training", "test"}[p], err)
		}
	}
	if a, b := l.parts[0], l.parts[1]; a.sh != b.sh {
		return l, fmt.Errorf("%s: training samples are %s, test samples %s", t.root, a.sh, b.sh)
	}
	for p, want := range []int{r.train, r.test} {
		if n := len(l.parts[p].label); want > 0 && n != want {
			l.notes = append(l.notes, fmt.Sprintf("%d %s samples instead of %d", n, [2]string{"training", "test"}[p], want))
		}
	}
	if c := l.parts[0].cls; r.classes > 0 && c != r.classes {
		l.notes = append(l.notes, fmt.Sprintf("%d classes instead of %d", c, r.classes))
	}
	return l, nil
}

// partOf guesses from a file's name whether it is training (0) or test (1)
// data; −1 if it does not say.
func partOf(name string) int {
	base := strings.ToLower(path.Base(name))
	switch {
	case strings.Contains(base, "train"):
		return 0
	case strings.Contains(base, "t10k"), strings.Contains(base, "test"), strings.Contains(base, "val"):
		return 1
	}
	return -1
}
