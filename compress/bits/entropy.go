package bits

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/fse"
	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Coder is a lossless stage over bytes, by name:
//
//	huff0  Huffman codes over bytes
//	fse    finite state entropy (tANS) over bytes
//	zstd   matches, then entropy codes
//	s2     matches alone, the fastest
//
// The coded form is the length as a varint, then blocks of up to 64 KiB of
// input (256 KiB for zstd and s2): a varint n, and n bytes of coded block; n = 0
// stands for a block stored as it is, n = 1 for one byte repeated. So nothing
// grows by more than MaxLen says.
//
// A Coder is safe for concurrent use. The same input gives the same bytes.
type Coder struct {
	block  int
	tables int       // objects allocated a block
	spaces sync.Pool // *codeSpace
	encode func(w *codeSpace, src []byte) ([]byte, error)
	decode func(w *codeSpace, p []byte, n int) ([]byte, error)
}

// codeSpace is the working memory of one encoding or decoding.
type codeSpace struct {
	huff *huff0.Scratch
	fse  *fse.Scratch
	zenc *zstd.Encoder
	zdec *zstd.Decoder
	buf  []byte
}

// Coders lists the names.
var Coders = []string{"huff0", "fse", "zstd", "s2"}

// NewCoder returns the coder called name, one of Coders.
func NewCoder(name string) (*Coder, error) {
	c := &Coder{block: 1 << 16}
	switch name {
	case "huff0":
		c.tables = 1
		c.spaces.New = func() any {
			return &codeSpace{huff: &huff0.Scratch{Reuse: huff0.ReusePolicyNone, MaxDecodedSize: c.block}}
		}
		c.encode, c.decode = encodeHuff, decodeHuff
	case "fse":
		c.spaces.New = func() any { return &codeSpace{fse: &fse.Scratch{DecompressLimit: c.block}} }
		c.encode, c.decode = encodeFSE, decodeFSE
	case "zstd":
		c.block = 1 << 18
		c.spaces.New = func() any { return newZstd(c.block) }
		c.encode, c.decode = encodeZstd, decodeZstd
	case "s2":
		c.block = 1 << 18
		c.spaces.New = func() any { return new(codeSpace) }
		c.encode, c.decode = encodeS2, decodeS2
	default:
		return nil, fmt.Errorf("no coder %q; there are %v", name, Coders)
	}
	return c, nil
}

// MaxLen bounds the coded length of n bytes.
func (c *Coder) MaxLen(n int) int {
	return UvarintMaxLen(1, n) + n + (n+c.block-1)/c.block
}

// Allocs is how many objects coding n bytes allocates: huff0 makes one for the
// table of each block.
func (c *Coder) Allocs(n int) int { return c.tables * ((n + c.block - 1) / c.block) }

// Append appends the coded form of src to dst.
func (c *Coder) Append(dst, src []byte) []byte {
	w := c.spaces.Get().(*codeSpace)
	defer c.spaces.Put(w)
	dst = AppendUvarint(slices.Grow(dst, c.MaxLen(len(src))), uint32(len(src)))
	for len(src) > 0 {
		b := src[:min(c.block, len(src))]
		src = src[len(b):]
		if len(b) > 1 && constant(b) {
			dst = append(dst, 1, b[0])
			continue
		}
		out, err := c.encode(w, b)
		if err != nil || len(out) < 2 || UvarintMaxLen(1, len(out))+len(out) >= 1+len(b) {
			dst = append(append(dst, 0), b...)
			continue
		}
		dst = append(AppendUvarint(dst, uint32(len(out))), out...)
	}
	return dst
}

// Expand appends what p stands for to dst, at most limit bytes. Any bytes may
// come in; an error says why they are no coded form.
func (c *Coder) Expand(dst, p []byte, limit int) ([]byte, error) {
	total, k := Uvarint(p)
	if k == 0 || uint64(total) > uint64(max(0, limit)) {
		return dst, fmt.Errorf("no length up to %d", limit)
	}
	p = p[k:]
	w := c.spaces.Get().(*codeSpace)
	defer c.spaces.Put(w)
	for left := int(total); left > 0; {
		n := min(c.block, left)
		left -= n
		size, k := Uvarint(p)
		if p = p[k:]; k == 0 || uint64(size) > uint64(len(p)) {
			return dst, errors.New("a block is cut short")
		}
		switch size {
		case 0:
			if len(p) < n {
				return dst, errors.New("a stored block is cut short")
			}
			dst, p = append(dst, p[:n]...), p[n:]
		case 1:
			for range n {
				dst = append(dst, p[0])
			}
			p = p[1:]
		default:
			out, err := c.decode(w, p[:size], n)
			if err != nil {
				return dst, err
			}
			if len(out) != n {
				return dst, fmt.Errorf("a block of %d bytes, want %d", len(out), n)
			}
			dst, p = append(dst, out...), p[size:]
		}
	}
	if len(p) > 0 {
		return dst, errors.New("bytes behind the last block")
	}
	return dst, nil
}

// constant reports whether all bytes of b, at least one, are equal.
func constant(b []byte) bool {
	for _, v := range b[1:] {
		if v != b[0] {
			return false
		}
	}
	return true
}

func encodeHuff(w *codeSpace, src []byte) ([]byte, error) {
	out, _, err := huff0.Compress4X(src, w.huff)
	return out, err
}

func decodeHuff(w *codeSpace, p []byte, n int) ([]byte, error) {
	s, rest, err := huff0.ReadTable(p, w.huff)
	if err != nil {
		return nil, err
	}
	w.buf = sized(w.buf, n)
	return s.Decoder().Decompress4X(w.buf[:n:n], rest) // it looks at the capacity
}

func encodeFSE(w *codeSpace, src []byte) ([]byte, error) { return fse.Compress(src, w.fse) }

func decodeFSE(w *codeSpace, p []byte, n int) ([]byte, error) {
	w.fse.DecompressLimit = n
	return fse.Decompress(p, w.fse)
}

func newZstd(block int) *codeSpace {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(block), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(block)),
		zstd.WithDecoderMaxWindow(uint64(block)))
	if err != nil {
		panic(err)
	}
	return &codeSpace{zenc: enc, zdec: dec}
}

func encodeZstd(w *codeSpace, src []byte) ([]byte, error) {
	w.buf = w.zenc.EncodeAll(src, w.buf[:0])
	return w.buf, nil
}

func decodeZstd(w *codeSpace, p []byte, n int) ([]byte, error) {
	var err error
	w.buf, err = w.zdec.DecodeAll(p, sized(w.buf, n)[:0])
	return w.buf, err
}

func encodeS2(w *codeSpace, src []byte) ([]byte, error) {
	w.buf = s2.Encode(sized(w.buf, s2.MaxEncodedLen(len(src))), src)
	return w.buf, nil
}

func decodeS2(w *codeSpace, p []byte, n int) ([]byte, error) {
	if got, err := s2.DecodedLen(p); err != nil || got != n {
		return nil, fmt.Errorf("an s2 block of %d bytes, want %d", got, n)
	}
	w.buf = sized(w.buf, n)
	return s2.Decode(w.buf, p)
}

// sized returns b with length n, reallocated only when it must grow.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
