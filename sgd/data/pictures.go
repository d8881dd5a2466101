package data

import (
	"fmt"
	"image"
	"slices"
)

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
	published := slices.ContainsFunc(r.kinds, func(k kind) bool { return k == cifar10Kind || k == cifar100Kind })
	if q := jpegQuality(raw[0][0]); q > 0 && published { // as raw pixels
		l.notes = append(l.notes, fmt.Sprintf("read from JPEGs of quality %d, not the original pixels: accuracies come out a little under published ones", q))
	}
	if err := writeShard(keep, key, l); err != nil {
		l.notes = append(l.notes, "decoded pictures were not kept: "+err.Error())
	}
	return l, nil
}
