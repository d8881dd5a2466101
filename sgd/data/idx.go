package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"slices"

	"github.com/gradlab/gradlab/sgd"
)

// IDX, the format of MNIST: two zero bytes, a type (8 for unsigned bytes, the
// only one taken), the number of dimensions, then each dimension as a
// big-endian uint32, then the bytes, last dimension fastest. Images have three
// dimensions (sample, row, column) or four (sample, channel, row, column),
// labels one.

// isIDX tells whether head begins an IDX file of bytes.
func isIDX(head []byte) bool {
	return len(head) >= 8 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] >= 1 && head[3] <= 4
}

// parseIDX returns the dimensions and the bytes, which alias b. Nothing is
// allocated by what the header says.
func parseIDX(b []byte) (dims []int, body []byte, err error) {
	if !isIDX(b) {
		return nil, nil, fmt.Errorf("not an IDX file of bytes")
	}
	n := int(b[3])
	if len(b) < 4+4*n {
		return nil, nil, fmt.Errorf("IDX header cut off at %d bytes", len(b))
	}
	body = b[4+4*n:]
	want := uint64(1)
	for i := range n {
		d := uint64(binary.BigEndian.Uint32(b[4+4*i:]))
		if d == 0 || want*d > uint64(len(body)) { // no overflow: want ≤ len(body)
			return nil, nil, fmt.Errorf("IDX header promises more than the %d bytes behind it (dimension %d is %d)", len(body), i, d)
		}
		dims, want = append(dims, int(d)), want*d
	}
	if want != uint64(len(body)) {
		return nil, nil, fmt.Errorf("IDX header promises %d bytes, there are %d", want, len(body))
	}
	return dims, body, nil
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
