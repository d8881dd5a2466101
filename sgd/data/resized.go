package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// Resized pictures are those of a set scaled to a short side, as planes of luma and
// of colours at half the resolution, in one file that is mapped into memory:
//
//	"gradlab resized 2\n" | pictures | index | u64 place of the index
//	index: u32 number | for each picture u64 place, u16 width, u16 height, u32 CRC-32C | u32 CRC-32C of the index
//
// Integers are little endian; a picture that cannot be read has width 0. The file is
// a memo. What is not in it, or damaged, is made from the picture again, to the same
// bits, so it changes how fast samples are and never what they are.
const resizedMagic = "gradlab resized 2\n"

// shrunk is a picture that is scaled to a short side.
type shrunk struct{ image.YCbCr }

// of makes it a view of the bytes of a w×h picture, as many as shrunkLen says.
func (s *shrunk) of(b []byte, w, h int) {
	cw, ch := (w+1)/2, (h+1)/2
	s.YCbCr = image.YCbCr{
		Y: b[:w*h], Cb: b[w*h:][:cw*ch], Cr: b[w*h+cw*ch:][:cw*ch], YStride: w, CStride: cw,
		SubsampleRatio: image.YCbCrSubsampleRatio420, Rect: image.Rect(0, 0, w, h),
	}
}

func shrunkLen(w, h int) int { return w*h + 2*((w+1)/2)*((h+1)/2) }

// shortSide is the size of a w×h picture scaled to a short side; smaller ones stay.
func shortSide(w, h, side int) (int, int) {
	short := min(w, h)
	if short <= side {
		return w, h
	}
	return (w*side + short/2) / short, (h*side + short/2) / short
}

// shrink decodes a picture and scales it to a short side. The bytes are appended to dst.
func shrink(dst, b []byte, side int) (out []byte, w, h int, err error) {
	config, _ := formOf(b)
	c, err := config(bytes.NewReader(b))
	if err != nil {
		return dst, 0, 0, err
	}
	if !plausible(c.Width, c.Height, len(b)) {
		return dst, 0, 0, fmt.Errorf("%d×%d pixels in %d bytes", c.Width, c.Height, len(b))
	}
	if w, h = shortSide(c.Width, c.Height, side); w > 0xffff || h > 0xffff {
		return dst, 0, 0, fmt.Errorf("%d×%d pixels are too many for a side", w, h)
	}
	work := canvases.Get().(*canvas)
	defer canvases.Put(work)
	work.whole = grow(work.whole, 3*w*h)
	whole := func(w, h int) image.Rectangle { return image.Rect(0, 0, w, h) }
	if err := decode(b, sgd.Shape{C: 3, H: h, W: w}, whole, work.whole); err != nil {
		return dst, 0, 0, err
	}
	at := len(dst)
	dst = append(dst, make([]byte, shrunkLen(w, h))...)
	var s shrunk
	s.of(dst[at:], w, h)
	s.fill(work.whole)
	return dst, w, h, nil
}

// fill sets it to a picture of its size in red, green and blue, plane by plane; a
// colour is that of the mean of the two by two pixels it is for.
func (s *shrunk) fill(rgb []byte) {
	w, h := s.Rect.Max.X, s.Rect.Max.Y
	plane := w * h
	for y := 0; y < h; y += 2 {
		for x := 0; x < w; x += 2 {
			var sum [3]int
			n := 0
			for v := y; v < min(y+2, h); v++ {
				for u := x; u < min(x+2, w); u++ {
					i := v*w + u
					r, g, b := rgb[i], rgb[plane+i], rgb[2*plane+i]
					s.Y[i], _, _ = color.RGBToYCbCr(r, g, b)
					sum[0], sum[1], sum[2], n = sum[0]+int(r), sum[1]+int(g), sum[2]+int(b), n+1
				}
			}
			mean := func(c int) uint8 { return uint8((sum[c] + n/2) / n) }
			i := y/2*s.CStride + x/2
			_, s.Cb[i], s.Cr[i] = color.RGBToYCbCr(mean(0), mean(1), mean(2))
		}
	}
}

// resized is the file of a set's pictures; nil holds none.
type resized struct {
	b     []byte
	index []byte // entries alone
	hold  *regular.Mapping
}

const entryLen = 16 // of the index

// picture makes s a view of picture i, if the file has it undamaged. The file must be
// reachable until the view is no longer used.
func (r *resized) picture(i int, s *shrunk) bool {
	if r == nil {
		return false
	}
	e := r.index[entryLen*i:][:entryLen]
	at, w, h := binary.LittleEndian.Uint64(e), int(binary.LittleEndian.Uint16(e[8:])), int(binary.LittleEndian.Uint16(e[10:]))
	n := shrunkLen(w, h)
	if w == 0 || h == 0 || at > uint64(len(r.b)) || n > len(r.b)-int(at) {
		return false
	}
	b := r.b[at:][:n]
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(e[12:]) {
		return false
	}
	s.of(b, w, h)
	return true
}

// openResized maps the file of n pictures; nil if there is none that is whole.
func openResized(path string, n int) *resized {
	b, hold, err := regular.Map(path)
	if err != nil || !bytes.HasPrefix(b, []byte(resizedMagic)) || len(b) < len(resizedMagic)+8+entryLen*n+8 {
		return nil
	}
	end := len(b) - 8
	at := binary.LittleEndian.Uint64(b[end:])
	if at != uint64(end-8-entryLen*n) {
		return nil
	}
	index := b[at:end]
	body := index[:len(index)-4]
	if binary.LittleEndian.Uint32(index) != uint32(n) || crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(index[len(body):]) {
		return nil
	}
	return &resized{b: b, index: body[4:], hold: hold}
}

// resizedFile is the file for a set's pictures at a short side: its name is a hash of
// their names, sizes and times of change.
func resizedFile(dir string, t *tree, parts [2][]labelled, how Pictures) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s%s %d\n", resizedMagic, runtime.Version(), how.Cache)
	archives := map[string]string{}
	for p, list := range parts {
		for i := range list {
			fmt.Fprintf(h, "%d %q %s\n", p, list[i].path(), t.stamp(list[i].file, archives))
		}
	}
	return filepath.Join(dir, hex.EncodeToString(h.Sum(nil)[:16])+".resized")
}

// stamp tells one content of a file from another: by place and size in an archive,
// and by size and time of change of what lies in a folder. known is archives that were
// looked at.
func (t *tree) stamp(f *file, known map[string]string) string {
	if in, ok := f.in.(folder); ok {
		r, err := in.file(f.name)
		if err != nil {
			return ""
		}
		defer r.Close()
		st, err := r.Stat()
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%d %d", st.Size(), st.ModTime().UnixNano())
	}
	s, ok := known[f.from]
	for at := f.from; !ok; at = at[:max(0, strings.LastIndexByte(at, '/'))] {
		if st, err := os.Stat(filepath.Join(t.root, filepath.FromSlash(at))); err == nil || at == "" {
			if ok = true; err == nil && st.Mode().IsRegular() {
				s = fmt.Sprintf("%d %d", st.Size(), st.ModTime().UnixNano())
			}
		}
	}
	known[f.from] = s
	return fmt.Sprintf("%s %d %d", s, f.at, f.size)
}

// keepResized opens the file of the pictures of both stores, or makes it: one process
// of those that ask for it does. The note says why there is none.
func (r *recipe) keepResized(stores [2]*lazy, o Options) (note string) {
	z := stores[0]
	if z.how.Cache == 0 || !o.KeepDecoded || o.Cache == "" {
		return ""
	}
	fail := func(err error) string { return "resized pictures are not kept: " + err.Error() }
	dir := filepath.Join(o.Cache, "resized")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	n := z.len() + stores[1].len()
	path := resizedFile(dir, z.tree, [2][]labelled{z.list, stores[1].list}, z.how)
	file := openResized(path, n)
	if file == nil {
		defer onlyOne(path + ".lock")()
		if file = openResized(path, n); file == nil {
			w := r.newWork(o, decoding, "", pictureUnit, int64(n))
			if err := writeResized(path, stores, w); err != nil {
				return fail(err)
			}
			w.note("resized pictures are kept in " + dir + " for the next time")
			file = openResized(path, n)
		}
	}
	if file == nil {
		return fail(errors.New(path + " cannot be read back"))
	}
	for _, s := range stores {
		s.resized = file
	}
	stores[1].before = z.len()
	return ""
}

// writeResized makes the file, as many pictures at a time as there are cores to decode
// them.
func writeResized(path string, stores [2]*lazy, w *work) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err := io.WriteString(f, resizedMagic); err != nil {
		return err
	}
	at := uint64(len(resizedMagic))
	index := binary.LittleEndian.AppendUint32(nil, uint32(stores[0].len()+stores[1].len()))
	type made struct {
		b    []byte
		w, h int
	}
	batch := make([]made, 8*par.Threads())
	for _, z := range stores {
		for first := 0; first < z.len(); first += len(batch) {
			n := min(len(batch), z.len()-first)
			_ = parallel(n, func(i int) error { // what cannot be read is told of when it is asked for
				m := &batch[i]
				m.b, m.w, m.h, _ = z.shrink(m.b[:0], first+i)
				return nil
			})
			for _, m := range batch[:n] {
				if _, err := f.Write(m.b); err != nil {
					return err
				}
				index = binary.LittleEndian.AppendUint64(index, at)
				index = binary.LittleEndian.AppendUint16(index, uint16(m.w))
				index = binary.LittleEndian.AppendUint16(index, uint16(m.h))
				index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(m.b, castagnoli))
				at += uint64(len(m.b))
			}
			w.add(int64(n))
		}
	}
	index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, castagnoli))
	_, err = f.Write(binary.LittleEndian.AppendUint64(index, at))
	return err
}

// shrink appends picture i at the set's short side to dst.
func (z *lazy) shrink(dst []byte, i int) (out []byte, w, h int, err error) {
	l := &z.list[i]
	raw, err := z.tree.read(l.file)
	if err != nil {
		return dst, 0, 0, err
	}
	out, w, h, err = shrink(dst, raw, z.how.Cache)
	return out, w, h, z.tree.wrap(l.path(), err)
}

// cached writes the part of picture i at the set's short side, of shape sh, to c.pix.
func (z *lazy) cached(i int, sh sgd.Shape, fr frame, c *canvas) error {
	if !z.resized.picture(z.before+i, &c.small) {
		b, w, h, err := z.shrink(c.bytes[:0], i)
		if err != nil {
			return err
		}
		c.bytes = b
		c.small.of(b, w, h)
	}
	scaleTo(&c.small.YCbCr, fr(c.small.Rect.Max.X, c.small.Rect.Max.Y), sh, c.pix)
	runtime.KeepAlive(z.resized)
	return nil
}
