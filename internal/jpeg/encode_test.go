package jpeg

import (
	"math/rand/v2"
)

// A picture given by its coefficients, and what writes it in every form that is
// read: baseline and progressive, with restarts, scan by scan or interleaved. Every
// symbol is its own code of 8 bits, so the writer is the format and nothing else.
type drawing struct {
	width, height int
	h, v          int // of the first component; the others are 1×1
	comps         int
	quant         [2][64]byte // in zigzag order: luma, chroma
	coef          [3][][64]int
	across        [3]int // blocks in a row, MCUs filled up
}

// draw makes a picture of random coefficients that decay, some of them 0.
func draw(r *rand.Rand, width, height, comps, h, v int) *drawing {
	p := &drawing{width: width, height: height, comps: comps, h: h, v: v}
	if comps == 1 {
		p.h, p.v = 1, 1
	}
	for t := range p.quant {
		for k := range 64 {
			p.quant[t][k] = byte(1 + r.IntN(3) + k/(8+8*t))
		}
	}
	mx, my := p.mcus()
	for c := range comps {
		bh, bv := p.blocks(c)
		p.across[c] = mx * bh
		p.coef[c] = make([][64]int, mx*bh*my*bv)
		for i := range p.coef[c] {
			f := &p.coef[c][i]
			f[0] = (r.IntN(1600) - 800) / int(p.quant[min(c, 1)][0])
			for k := 1; k < 64; k++ {
				if r.IntN(3) == 0 || k > 50 && r.IntN(8) > 0 || i%5 == 0 {
					continue
				}
				f[k] = int(r.NormFloat64() * 120 / float64(k+2) / float64(p.quant[min(c, 1)][k]) * 2)
			}
		}
	}
	return p
}

func (p *drawing) blocks(c int) (h, v int) {
	if c > 0 {
		return 1, 1
	}
	return p.h, p.v
}

func (p *drawing) mcus() (x, y int) {
	return (p.width + 8*p.h - 1) / (8 * p.h), (p.height + 8*p.v - 1) / (8 * p.v)
}

// own is the blocks of a component that hold pixels of the picture.
func (p *drawing) own(c int) (w, h int) {
	bh, bv := p.blocks(c)
	return ((p.width*bh+p.h-1)/p.h + 7) / 8, ((p.height*bv+p.v-1)/p.v + 7) / 8
}

type writer struct {
	b    []byte
	acc  uint32
	n    int
	runs int    // blocks of an end-of-band run that is not written yet
	held []byte // correction bits behind it
}

func (w *writer) bits(v, n int) {
	for n--; n >= 0; n-- {
		w.acc = w.acc<<1 | uint32(v>>n&1)
		if w.n++; w.n == 8 {
			w.b = append(w.b, byte(w.acc))
			if byte(w.acc) == 0xff {
				w.b = append(w.b, 0)
			}
			w.acc, w.n = 0, 0
		}
	}
}

func (w *writer) align() {
	for w.n > 0 {
		w.bits(1, 1)
	}
}

func size(v int) (n int) {
	for v = max(v, -v); v > 0; v >>= 1 {
		n++
	}
	return n
}

func (w *writer) value(v, n int) {
	if v < 0 {
		v += 1<<n - 1
	}
	w.bits(v, n)
}

func (w *writer) flush() {
	if w.runs > 0 {
		n := size(w.runs) - 1
		w.bits(n<<4, 8)
		w.bits(w.runs&(1<<n-1), n)
		w.runs = 0
	}
	for _, b := range w.held {
		w.bits(int(b), 1)
	}
	w.held = w.held[:0]
}

func (w *writer) segment(m byte, body ...byte) {
	w.b = append(append(w.b, 0xff, m, byte((len(body)+2)>>8), byte(len(body)+2)), body...)
}

// encode writes the picture; separate puts each component into a scan of its own.
func (p *drawing) encode(progressive, separate bool, interval int) []byte {
	w := &writer{b: []byte{0xff, 0xd8}}
	for t := range p.quant {
		w.segment(0xdb, append([]byte{byte(t)}, p.quant[t][:]...)...)
	}
	frame := []byte{8, byte(p.height >> 8), byte(p.height), byte(p.width >> 8), byte(p.width), byte(p.comps)}
	for c := range p.comps {
		h, v := p.blocks(c)
		frame = append(frame, byte(c+1), byte(h<<4|v), byte(min(c, 1)))
	}
	w.segment(map[bool]byte{true: 0xc2, false: 0xc0}[progressive], frame...)
	symbols := make([]byte, 255)
	for i := range symbols {
		symbols[i] = byte(i)
	}
	for _, class := range []byte{0x00, 0x10} {
		body := append([]byte{class}, make([]byte, 16)...)
		body[8] = 255
		if class == 0 {
			body[8] = 16
			w.segment(0xc4, append(body, symbols[:16]...)...)
			continue
		}
		w.segment(0xc4, append(body, symbols...)...)
	}
	if interval > 0 {
		w.segment(0xdd, byte(interval>>8), byte(interval))
	}
	all := make([]int, p.comps)
	for c := range all {
		all[c] = c
	}
	if !progressive {
		if separate {
			for c := range all {
				p.scan(w, all[c:c+1], band{to: 63}, false, interval)
			}
		} else {
			p.scan(w, all, band{to: 63}, false, interval)
		}
	} else {
		for _, refine := range []bool{false, true} {
			s := band{low: 1, refine: refine}
			if refine {
				s.low = 0
			}
			if separate {
				for c := range all {
					p.scan(w, all[c:c+1], s, true, interval)
				}
			} else {
				p.scan(w, all, s, true, interval)
			}
		}
		for c := range all {
			for _, s := range []band{{1, 5, 2, false}, {6, 63, 2, false}, {1, 63, 1, true}, {1, 63, 0, true}} {
				p.scan(w, all[c:c+1], s, true, interval)
			}
		}
	}
	return append(w.b, 0xff, 0xd9)
}

func (p *drawing) scan(w *writer, comps []int, s band, progressive bool, interval int) {
	body := []byte{byte(len(comps))}
	for _, c := range comps {
		body = append(body, byte(c+1), 0)
	}
	high := 0
	if s.refine {
		high = s.low + 1
	}
	w.segment(0xda, append(body, byte(s.from), byte(s.to), byte(high<<4|s.low))...)
	pred, count := [3]int{}, 0
	restart := func() {
		if interval > 0 && count > 0 && count%interval == 0 {
			w.flush()
			w.align()
			w.b = append(w.b, 0xff, 0xd0+byte((count/interval-1)&7))
			pred = [3]int{}
		}
		count++
	}
	one := func(c, x, y int) {
		f := &p.coef[c][y*p.across[c]+x]
		if !progressive {
			p.block(w, f, band{to: 63}, &pred[c])
			return
		}
		p.progress(w, f, s, &pred[c])
	}
	if len(comps) == 1 {
		c := comps[0]
		bw, bh := p.own(c)
		for i := range bw * bh {
			restart()
			one(c, i%bw, i/bw)
		}
	} else {
		mx, my := p.mcus()
		for i := range mx * my {
			restart()
			for _, c := range comps {
				h, v := p.blocks(c)
				for k := range h * v {
					one(c, i%mx*h+k%h, i/mx*v+k/h)
				}
			}
		}
	}
	w.flush()
	w.align()
}

func (p *drawing) mean(w *writer, v int, pred *int) {
	n := size(v - *pred)
	w.bits(dcCode(n), 8)
	w.value(v-*pred, n)
	*pred = v
}

// dcCode is the code of a DC symbol: these are the first 16 of length 8.
func dcCode(n int) int { return n }

func (p *drawing) block(w *writer, f *[64]int, s band, pred *int) {
	p.mean(w, f[0], pred)
	p.band(w, f, 1, 63, 0)
}

// band writes the coefficients from … to without their low bits.
func (p *drawing) band(w *writer, f *[64]int, from, to, low int) (rest bool) {
	run := 0
	for k := from; k <= to; k++ {
		v := f[k]
		if v < 0 {
			v = -(-v >> low)
		} else {
			v >>= low
		}
		if v == 0 {
			run++
			continue
		}
		w.flush()
		for ; run > 15; run -= 16 {
			w.bits(0xf0, 8)
		}
		n := size(v)
		w.bits(run<<4|n, 8)
		w.value(v, n)
		run = 0
	}
	if run > 0 && low == 0 {
		w.bits(0, 8)
	}
	return run > 0
}

func (p *drawing) progress(w *writer, f *[64]int, s band, pred *int) {
	switch {
	case s.from == 0 && !s.refine:
		p.mean(w, f[0]>>s.low, pred)
	case s.from == 0:
		w.bits(f[0]>>s.low&1, 1)
	case !s.refine:
		if p.band(w, f, s.from, s.to, s.low) {
			if w.runs++; w.runs == 0x7fff {
				w.flush()
			}
		}
	default:
		p.refine(w, f, s)
	}
}

func (p *drawing) refine(w *writer, f *[64]int, s band) {
	last := 0
	abs := func(k int) int { return max(f[k], -f[k]) >> s.low }
	for k := s.from; k <= s.to; k++ {
		if abs(k) == 1 {
			last = k
		}
	}
	run := 0
	var held []byte
	put := func() {
		for _, b := range held {
			w.bits(int(b), 1)
		}
		held = held[:0]
	}
	for k := s.from; k <= s.to; k++ {
		a := abs(k)
		if a == 0 {
			run++
			continue
		}
		for run > 15 && k <= last {
			w.flush()
			w.bits(0xf0, 8)
			put()
			run -= 16
		}
		if a > 1 {
			held = append(held, byte(a&1))
			continue
		}
		w.flush()
		w.bits(run<<4|1, 8)
		if f[k] < 0 {
			w.bits(0, 1)
		} else {
			w.bits(1, 1)
		}
		put()
		run = 0
	}
	if run > 0 || len(held) > 0 {
		w.runs++
		if w.held = append(w.held, held...); w.runs == 0x7fff || len(w.held) > 500 {
			w.flush()
		}
	}
}
