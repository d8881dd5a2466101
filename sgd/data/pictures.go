package data

import (
	"fmt"
	"image"
	"slices"
)

// loadImages decodes an image folder on all cores. Pictures that cannot be read
// are left out, as far as o permits.
func (t *tree) loadImages(r *recipe, keep string, o Options) (l loaded, err error) {
	parts, classes, err := t.imageFolder(0)
	if err != nil {
		return l, err
	}
	dim := r.shape.Len()
	all := len(parts[0]) + len(parts[1])
	lost := newUnreadable(all, o)
	w := r.newWork(o, reading, "", pictureUnit, int64(all))
	raw := [2][][]byte{}
	for p, list := range parts {
		if int64(len(list))*int64(dim) > maxHeld {
			return l, fmt.Errorf("%s: %d pictures of %s do not fit in memory", t.root, len(list), r.shape)
		}
		raw[p] = make([][]byte, len(list))
		if err := parallel(len(list), func(i int) (err error) {
			defer w.add(1)
			if raw[p][i], err = t.read(list[i].file); err != nil {
				raw[p][i] = nil
				return lost.add(list[i].path(), err)
			}
			return nil
		}); err != nil {
			return l, err
		}
	}
	key := decodedKey(r, parts, raw)
	if l, ok := readDecoded(keep, key); ok && l.left <= lost.allowed() {
		return l, nil
	}
	w = r.newWork(o, decoding, "", pictureUnit, int64(all))
	middle := func(w, h int) image.Rectangle { return centre(w, h, r.shape.W, r.shape.H, 1) }
	for p, list := range parts {
		m := &images{sh: r.shape, cls: len(classes), pix: make([]uint8, len(list)*dim), label: make([]int32, len(list))}
		broken := make([]bool, len(list))
		err := parallel(len(list), func(i int) error {
			defer w.add(1)
			m.label[i] = list[i].label
			if raw[p][i] == nil {
				broken[i] = true
				return nil
			}
			if err := decode(raw[p][i], r.shape, middle, m.pix[i*dim:(i+1)*dim]); err != nil {
				broken[i] = true
				return lost.add(list[i].path(), t.wrap(list[i].path(), err))
			}
			return nil
		})
		if err != nil {
			return l, err
		}
		m.drop(broken)
		l.parts[p] = m
	}
	l.left = lost.count()
	if note := lost.note(); note != "" {
		l.notes = append(l.notes, note)
	}
	published := slices.ContainsFunc(r.kinds, func(k kind) bool { return k == cifar10Kind || k == cifar100Kind })
	if q := jpegQuality(raw[0][0]); q > 0 && published { // as raw pixels
		l.notes = append(l.notes, fmt.Sprintf("read from JPEGs of quality %d, not the original pixels: accuracies come out a little under published ones", q))
	}
	switch err := writeDecoded(keep, key, l); {
	case err != nil:
		l.notes = append(l.notes, "decoded pictures were not kept: "+err.Error())
	case keep != "":
		w.note("decoded pictures are kept in " + keep + " for the next time")
	}
	return l, nil
}

// drop removes the samples that are marked.
func (m *images) drop(marked []bool) {
	dim, n := m.sh.Len(), 0
	for i, gone := range marked {
		if gone {
			continue
		}
		if n < i {
			copy(m.pix[n*dim:(n+1)*dim], m.pix[i*dim:(i+1)*dim])
			m.label[n] = m.label[i]
		}
		n++
	}
	m.pix, m.label = m.pix[:n*dim], m.label[:n]
}
