package jpeg

import (
	"errors"
	"slices"
)

// natural is the place of each coefficient of the zigzag order (T.81 figure A.6);
// runs that lead beyond the last end in a place that counts for nothing.
var natural = [64 + 16]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
	63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
}

var errCode = errors.New("jpeg: no such Huffman code")

// band is what a scan of a progressive picture brings: coefficients from … to, their
// bits from low on, as a refinement of higher bits or as their first ones.
type band struct {
	from, to, low int
	refine        bool
}

// scan reads one scan. done tells that nothing of the part comes after it: the only
// scan of a baseline picture.
func (d *Decoder) scan() (done bool, err error) {
	order, err := d.members()
	if err != nil {
		return false, err
	}
	s, err := d.band(len(order))
	if err != nil {
		return false, err
	}
	for _, c := range order {
		if s.from == 0 && !s.refine && !d.dc[c.td].ok || s.to > 0 && !d.ac[c.ta].ok {
			return false, errors.New("jpeg: a Huffman table is missing")
		}
	}
	if !d.progressive {
		for _, c := range order {
			d.dc[c.td].pairs(means)
			d.ac[c.ta].pairs(others)
		}
	}
	d.bits, d.eob = bitReader{b: d.b, at: d.at}, 0
	clear(d.f[:])
	if len(order) == 1 {
		err = d.alone(order[0], s)
	} else {
		err = d.interleaved(order, s)
	}
	d.at = d.bits.at
	if err == nil && d.exact && !d.usual(order) {
		err = ErrUnsupported
	}
	return !d.progressive && len(order) == len(d.comps), err
}

// members is the components of a scan.
func (d *Decoder) members() (order []*component, err error) {
	b := d.head
	if len(b) < 4 || len(b) != 4+2*int(b[0]) || b[0] < 1 || int(b[0]) > len(d.comps) {
		return nil, errShort
	}
	order = d.order[:0]
	for i := range int(b[0]) {
		id, t := b[1+2*i], b[2+2*i]
		at := slices.IndexFunc(d.comps, func(c component) bool { return c.id == id })
		if at < 0 || t>>4 > 3 || t&15 > 3 || slices.Contains(order, &d.comps[at]) {
			return nil, errors.New("jpeg: a scan of a component or a table that is not there, or twice")
		}
		c := &d.comps[at]
		c.td, c.ta, c.pred = t>>4, t&15, 0
		order = append(order, c)
	}
	return order, nil
}

// band is what the scan of so many components brings.
func (d *Decoder) band(components int) (band, error) {
	if !d.progressive {
		return band{to: 63}, nil
	}
	tail := d.head[len(d.head)-3:]
	high := int(tail[2] >> 4)
	s := band{from: int(tail[0]), to: int(tail[1]), low: int(tail[2] & 15), refine: high != 0}
	switch {
	case s.to > 63, s.from > s.to, s.from == 0 && s.to != 0, s.from > 0 && components != 1, s.low > 13, s.refine && high != s.low+1:
		return s, errors.New("jpeg: a scan of no band of coefficients")
	}
	return s, nil
}

// alone reads a scan of one component: its blocks, row by row.
func (d *Decoder) alone(c *component, s band) error {
	count := 0
	for y := range c.bh {
		if !d.progressive && !d.exact && y >= d.my[1]*c.v {
			return d.skip()
		}
		for x := range c.bw {
			if err := d.restart(&count); err != nil {
				return err
			}
			if err := d.block(c, x, y, s); err != nil {
				return err
			}
		}
		if d.bits.short() {
			return errShort
		}
	}
	return nil
}

// interleaved reads a scan of several components: MCU by MCU.
func (d *Decoder) interleaved(order []*component, s band) error {
	count := 0
	for my := range d.mcusY {
		if !d.progressive && !d.exact && my >= d.my[1] {
			return d.skip()
		}
		for mx := range d.mcusX {
			if err := d.restart(&count); err != nil {
				return err
			}
			for _, c := range order {
				for y := my * c.v; y < (my+1)*c.v; y++ {
					for x := mx * c.h; x < (mx+1)*c.h; x++ {
						if err := d.block(c, x, y, s); err != nil {
							return err
						}
					}
				}
			}
		}
		if d.bits.short() {
			return errShort
		}
	}
	return nil
}

// skip goes to the next marker that is no restart.
func (d *Decoder) skip() error {
	r := &d.bits
	for ; r.at+1 < len(r.b); r.at++ {
		if r.b[r.at] == 0xff && r.b[r.at+1] != 0 && (r.b[r.at+1] < 0xd0 || r.b[r.at+1] > 0xd7) {
			return nil
		}
	}
	return nil
}

// restart begins anew at each restart marker; count is the MCUs so far.
func (d *Decoder) restart(count *int) error {
	n := *count
	*count++
	if d.interval == 0 || n == 0 || n%d.interval != 0 {
		return nil
	}
	r := &d.bits
	if r.short() || r.at+1 >= len(r.b) || r.b[r.at] != 0xff || r.b[r.at+1] != 0xd0+byte((n/d.interval-1)&7) {
		return errors.New("jpeg: a restart marker is not where it should be")
	}
	d.bits, d.eob = bitReader{b: r.b, at: r.at + 2}, 0
	for i := range d.comps {
		d.comps[i].pred = 0
	}
	return nil
}

// block reads what a scan has of the block at (x, y) of a component, and transforms
// it if it lies in the part and is complete.
func (d *Decoder) block(c *component, x, y int, s band) error {
	if d.progressive {
		f := (*[64]int16)(c.coef[64*(y*d.mcusX*c.h+x):])
		switch {
		case s.refine && s.from == 0:
			if d.bits.n < 32 {
				d.bits.fill()
			}
			f[0] |= int16(d.bits.take(1)) << s.low
			return nil
		case s.refine:
			return d.refine(f, &d.ac[c.ta], s)
		}
		return d.first(f, c, s)
	}
	if x < d.mx[0]*c.h || x >= d.mx[1]*c.h || y < d.my[0]*c.v || y >= d.my[1]*c.v {
		return d.pass(c)
	}
	if d.n == 1 {
		if err := d.pass(c); err != nil {
			return err
		}
		d.f[0] = c.pred * int32(d.quant[c.tq][0])
		d.transform(&d.f, 0, c, x, y)
		return nil
	}
	last, err := d.baseline(&d.f, c)
	if err != nil {
		return err
	}
	d.transform(&d.f, last, c, x, y)
	if last > 0 {
		clear(d.f[:])
	}
	return nil
}

// transform writes a block that lies in the part; last is that of [Decoder.baseline].
func (d *Decoder) transform(f *[64]int32, last int, c *component, x, y int) {
	x, y = x-d.mx[0]*c.h, y-d.my[0]*c.v
	if d.exact {
		exact8(f, last, c.pix[y*8*c.stride+x*8:], c.stride)
		return
	}
	if last == 0 {
		flat(f[0], d.n, c.pix[y*d.n*c.stride+x*d.n:], c.stride)
		return
	}
	idct(f, d.n, c.pix[y*d.n*c.stride+x*d.n:], c.stride)
}

// diff reads the next difference of a component's mean.
func (d *Decoder) diff(c *component) error {
	n, ok := d.bits.decode(&d.dc[c.td])
	if !ok || n > 15 {
		return errCode
	}
	c.pred += extend(d.bits.take(int(n)), int(n))
	return nil
}

// baseline reads a block (T.81 F.2.2) into f, which is zero but for the block before,
// and returns the last place of the zigzag order that is set.
func (d *Decoder) baseline(f *[64]int32, c *component) (last int, err error) {
	r := &d.bits
	acc, n, err := d.mean(c)
	if err != nil {
		return 0, err
	}
	q, h := &d.quant[c.tq], &d.ac[c.ta]
	f[0] = c.pred * int32(q[0])
	for k := 1; k < 64; k++ {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		p := h.look[acc>>(64-lookBits)]
		if p == 0 {
			if p = h.long(acc); p == 0 {
				return 0, errCode
			}
		}
		acc <<= p & 63
		n -= int(p & 63)
		k += int(p >> 8 & 0xff)
		if k > 63 {
			if err := d.over(p); err != nil {
				return 0, err
			}
			break
		}
		f[natural[k]&63] = int32(p) >> 16 * int32(q[k])
		last = k
	}
	r.acc, r.n = acc, n
	return last, nil
}

// pass reads a block of which the mean alone is of use.
func (d *Decoder) pass(c *component) error {
	r := &d.bits
	acc, n, err := d.mean(c)
	if err != nil {
		return err
	}
	h := &d.ac[c.ta]
	for k := 1; k < 64; k++ {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		p := h.look[acc>>(64-lookBits)]
		if p == 0 {
			if p = h.long(acc); p == 0 {
				return errCode
			}
		}
		acc <<= p & 63
		n -= int(p & 63)
		if k += int(p >> 8 & 0xff); k > 63 {
			if err := d.over(p); err != nil {
				return err
			}
			break
		}
	}
	r.acc, r.n = acc, n
	return nil
}

// mean reads a component's mean and returns the bits that come then.
func (d *Decoder) mean(c *component) (acc uint64, n int, err error) {
	r, h := &d.bits, &d.dc[c.td]
	if r.n < 32 {
		r.fill()
	}
	p := h.look[r.acc>>(64-lookBits)]
	if p == 0 {
		if p = h.long(r.acc); p == 0 {
			return 0, 0, errCode
		}
	}
	c.pred += int32(p) >> 16
	return r.acc << (p & 63), r.n - int(p&63), nil
}

// over judges the pair that leads beyond a block: the end of it, or zeros to its end.
func (d *Decoder) over(p pair) error {
	switch {
	case p>>16 != 0:
		return errors.New("jpeg: a block of more than 64 coefficients")
	case d.exact && p>>8&0xff > end:
		return ErrUnsupported // image/jpeg ends several blocks
	}
	return nil
}

// first reads the first bits of a band (T.81 G.1.2.1, G.1.2.2).
func (d *Decoder) first(f *[64]int16, c *component, s band) error {
	k := s.from
	if k == 0 {
		if err := d.diff(c); err != nil {
			return err
		}
		f[0] = int16(c.pred << s.low)
		k++
	}
	if k > s.to {
		return nil
	}
	if d.eob > 0 {
		d.eob--
		return nil
	}
	for ; k <= s.to; k++ {
		v, ok := d.bits.decode(&d.ac[c.ta])
		if !ok {
			return errCode
		}
		run, n := int(v>>4), int(v&15)
		switch {
		case n > 0:
			if k += run; k > s.to {
				return errors.New("jpeg: a band of too many coefficients")
			}
			f[natural[k]] = int16(extend(d.bits.take(n), n) << s.low)
		case run == 15:
			k += 15
		default:
			d.eob = 1<<run + int(d.bits.take(run)) - 1
			return nil
		}
	}
	return nil
}

// refine reads one more bit of a band (T.81 G.1.2.3): of each coefficient that is not
// 0 yet a correction, of others those that come in.
func (d *Decoder) refine(f *[64]int16, h *huffman, s band) error {
	r, one := &d.bits, int16(1)<<s.low
	correct := func(at uint8) {
		if r.n < 32 {
			r.fill()
		}
		if v := f[at]; r.take(1) == 1 && v&one == 0 {
			if v > 0 {
				f[at] += one
			} else {
				f[at] -= one
			}
		}
	}
	k := s.from
	if d.eob == 0 {
	coming:
		for k <= s.to {
			v, ok := r.decode(h)
			if !ok {
				return errCode
			}
			run, n := int(v>>4), int(v&15)
			value := int16(0)
			switch {
			case n == 1:
				value = one
				if r.take(1) == 0 {
					value = -one
				}
			case n > 1:
				return errors.New("jpeg: a refinement of more than a bit")
			case run < 15:
				d.eob = 1<<run + int(r.take(run))
				break coming
			}
			for ; k <= s.to; k++ {
				at := natural[k]
				if f[at] != 0 {
					correct(at)
					continue
				}
				if run == 0 {
					f[at] = value
					k++
					break
				}
				run--
			}
		}
	}
	if d.eob > 0 {
		d.eob--
		for ; k <= s.to; k++ {
			if at := natural[k]; f[at] != 0 {
				correct(at)
			}
		}
	}
	return nil
}

// transformAll transforms the part of a progressive picture, whose blocks are
// complete when all scans are read.
func (d *Decoder) transformAll() {
	for i := range d.comps {
		c := &d.comps[i]
		q := &d.quant[c.tq]
		for y := d.my[0] * c.v; y < d.my[1]*c.v; y++ {
			for x := d.mx[0] * c.h; x < d.mx[1]*c.h; x++ {
				from := (*[64]int16)(c.coef[64*(y*d.mcusX*c.h+x):])
				var f [64]int32
				for k, at := range natural[:64] {
					f[at] = int32(from[at]) * int32(q[k])
				}
				d.transform(&f, 63, c, x, y)
			}
		}
	}
}
