package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"path"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// loaded is a set read into memory.
type loaded struct {
	parts [2]*images // train, test
	notes []string
}

// load reads the tree in the best of the formats the set can come in. keep is
// the folder for decoded pictures, "" for none.
func (t *tree) load(r *recipe, keep string) (l loaded, err error) {
	switch {
	case slices.Contains(r.kinds, idxKind) && len(t.of(idxKind)) > 0:
		l, err = t.loadIDX(r)
	case slices.Contains(r.kinds, cifar10Kind) && len(t.of(cifar10Kind)) > 0:
		l, err = t.loadCIFAR(cifar10Kind)
	case slices.Contains(r.kinds, cifar100Kind) && len(t.of(cifar100Kind)) > 0:
		l, err = t.loadCIFAR(cifar100Kind)
	case len(t.of(imageKind)) > 0:
		l, err = t.loadImages(r, keep)
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

// loadIDX pairs images with labels of the same count. Names that say train,
// test or t10k are believed; of two pairs that do not, the longer one trains.
func (t *tree) loadIDX(r *recipe) (l loaded, err error) {
	type pair struct {
		part  int
		name  string
		x, y  []byte
		dims  []int
		noted string
	}
	var xs, ys []pair
	for _, f := range t.of(idxKind) {
		b, err := t.read(f)
		if err != nil {
			return l, err
		}
		dims, body, err := parseIDX(b)
		if err != nil {
			return l, t.wrap(f.path(), err)
		}
		p := pair{part: partOf(f.name), name: f.name, x: body, dims: dims}
		if want := r.content(f.name); want != "" {
			if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
				p.noted = path.Base(f.name) + " is not the official file"
			}
		}
		if len(dims) == 1 {
			ys = append(ys, p)
		} else {
			xs = append(xs, p)
		}
	}
	var pairs []pair
	for _, x := range xs {
		for _, y := range ys {
			if x.dims[0] != y.dims[0] || x.part != y.part && x.part >= 0 && y.part >= 0 {
				continue
			}
			x.y, x.part = y.x, max(x.part, y.part)
			for _, s := range []string{x.noted, y.noted} {
				if s != "" && !slices.Contains(l.notes, s) {
					l.notes = append(l.notes, s)
				}
			}
			pairs = append(pairs, x)
			break
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return b.dims[0] - a.dims[0] })
	for _, p := range pairs {
		if p.part < 0 {
			p.part = 0
			if l.parts[0] != nil {
				p.part = 1
			}
		}
		if l.parts[p.part] != nil {
			continue // a second copy
		}
		m := &images{pix: p.x, cls: r.classes}
		switch len(p.dims) {
		case 2:
			m.sh = sgd.Shape{C: 1, H: 1, W: p.dims[1]}
		case 3:
			m.sh = sgd.Shape{C: 1, H: p.dims[1], W: p.dims[2]}
		case 4:
			m.sh = sgd.Shape{C: p.dims[1], H: p.dims[2], W: p.dims[3]}
		}
		for _, y := range p.y {
			m.label = append(m.label, int32(y))
		}
		l.parts[p.part] = m
	}
	return l, nil
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

// loadImages decodes an image folder on all cores.
func (t *tree) loadImages(r *recipe, keep string) (l loaded, err error) {
	parts, classes, err := t.imageFolder()
	if err != nil {
		return l, err
	}
	dim := r.shape.Len()
	raw := [2][][]byte{}
	for p, list := range parts {
		if int64(len(list))*int64(dim) > maxHeld {
			return l, fmt.Errorf("%s: %d pictures of %s do not fit in memory", t.root, len(list), r.shape)
		}
		raw[p] = make([][]byte, len(list))
		if err := parallel(len(list), func(i int) (err error) { raw[p][i], err = t.read(list[i].file); return err }); err != nil {
			return l, err
		}
	}
	key := shardKey(r, parts, raw)
	if l, ok := readShard(keep, key); ok {
		return l, nil
	}
	middle := func(w, h int) image.Rectangle { return centre(w, h, r.shape.W, r.shape.H, 1) }
	for p, list := range parts {
		m := &images{sh: r.shape, cls: len(classes), pix: make([]uint8, len(list)*dim), label: make([]int32, len(list))}
		err := parallel(len(list), func(i int) error {
			m.label[i] = list[i].label
			return t.wrap(list[i].path(), decode(raw[p][i], r.shape, middle, m.pix[i*dim:(i+1)*dim]))
		})
		if err != nil {
			return l, err
		}
		l.parts[p] = m
	}
	if q := jpegQuality(raw[0][0]); q > 0 && slices.Contains(r.kinds, cifar10Kind) || q > 0 && slices.Contains(r.kinds, cifar100Kind) {
		l.notes = append(l.notes, fmt.Sprintf("read from JPEGs of quality %d, not the original pixels: accuracies come out a little under published ones", q))
	}
	if err := writeShard(keep, key, l); err != nil {
		l.notes = append(l.notes, "decoded pictures were not kept: "+err.Error())
	}
	return l, nil
}
