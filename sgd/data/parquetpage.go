package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// cell is a value: in the member for its kind.
type cell struct {
	null  bool
	bytes []byte // part of its page
	whole int64
	real  float64
}

// pageHead is the header of a page.
type pageHead struct {
	kind              int64 // of page
	unpacked, packed  int64
	crc               uint32
	hasCRC            bool
	values, encoding  int64
	levels            int64 // encoding of definition levels, of version 1
	defBytes, repByte int64 // of version 2, which packs levels apart
	plain             bool  // of version 2: nothing is packed
}

// Kinds of pages.
const (
	dataPage   = 0
	indexPage  = 1
	dictPage   = 2
	dataPageV2 = 3
)

// each calls f with every value of a chunk, and page with the bytes that each page holds
// in memory.
func (f *parquetFile) each(ch chunk, page func(n int64) error, value func(cell) error) error {
	err := f.pages(ch, page, value)
	if err != nil {
		return fmt.Errorf("column %s: %w", strings.Join(ch.col.path, "."), err)
	}
	return nil
}

func (f *parquetFile) pages(ch chunk, page func(n int64) error, value func(cell) error) error {
	var dict *dictionary
	left := ch.rows
	for at, end := ch.at, ch.at+ch.size; at < end && left > 0; {
		h, n, err := f.pageHead(at, end)
		if err != nil {
			return err
		}
		at += n
		if err := h.check(ch, end-at, left); err != nil {
			return err
		}
		if err := page(h.unpacked); err != nil {
			return err
		}
		if h.kind == indexPage {
			at += h.packed
			continue
		}
		raw := make([]byte, h.packed)
		if _, err := f.in.ReadAt(raw, at); err != nil {
			return err
		}
		at += h.packed
		if h.hasCRC && crc32.ChecksumIEEE(raw) != h.crc {
			return errors.New("a page whose checksum is another one")
		}
		body, err := h.unpack(raw, ch.codec)
		if err != nil {
			return err
		}
		if h.kind == dictPage {
			if dict, err = newDictionary(body, h, ch.col.kind); err != nil {
				return err
			}
			continue
		}
		left -= h.values
		if err := h.decode(body, ch.col, dict, value); err != nil {
			return err
		}
	}
	if left != 0 {
		return fmt.Errorf("%d values fewer than rows", left)
	}
	return nil
}

// pageHead reads the header of the page at a byte, and how long it is. Statistics in it may
// be long.
func (f *parquetFile) pageHead(at, end int64) (h pageHead, n int64, err error) {
	for room := int64(512); ; room *= 8 {
		b := make([]byte, min(room, end-at))
		if _, err := f.in.ReadAt(b, at); err != nil {
			return h, 0, err
		}
		c := &compact{b: b}
		h = c.pageHead()
		if c.err == nil {
			return h, int64(len(b) - len(c.b)), nil
		}
		if !errors.Is(c.err, io.ErrUnexpectedEOF) || room >= end-at {
			return h, 0, fmt.Errorf("a broken header of a page: %w", c.err)
		}
	}
}

func (c *compact) pageHead() (h pageHead) {
	body := func(ids [7]*int64) func(int, byte) {
		return func(id int, typ byte) {
			if typ == thriftI32 && id < len(ids) && id > 0 && ids[id] != nil {
				*ids[id] = c.zigzag()
				return
			}
			h.plain = h.plain || id == 7 && typ == thriftFalse
			c.skip(typ, 0)
		}
	}
	h.kind = -1
	c.fields(func(id int, typ byte) {
		switch {
		case id == 1 && typ == thriftI32:
			h.kind = c.zigzag()
		case id == 2 && typ == thriftI32:
			h.unpacked = c.zigzag()
		case id == 3 && typ == thriftI32:
			h.packed = c.zigzag()
		case id == 4 && typ == thriftI32:
			h.crc, h.hasCRC = uint32(c.zigzag()), true
		case id == 5 && typ == thriftStruct && h.kind == dataPage:
			c.fields(body([7]*int64{1: &h.values, 2: &h.encoding, 3: &h.levels}))
		case id == 7 && typ == thriftStruct && h.kind == dictPage:
			c.fields(body([7]*int64{1: &h.values, 2: &h.encoding}))
		case id == 8 && typ == thriftStruct && h.kind == dataPageV2:
			c.fields(body([7]*int64{1: &h.values, 4: &h.encoding, 5: &h.defBytes, 6: &h.repByte}))
		default:
			c.skip(typ, 0)
		}
	})
	return h
}

// check refuses a page that claims more than its bytes can hold. left is the number of
// values to come, room that of bytes.
func (h *pageHead) check(ch chunk, room, left int64) error {
	switch {
	case h.kind < dataPage || h.kind > dataPageV2:
		return fmt.Errorf("a page of kind %d", h.kind)
	case h.packed < 0 || h.packed > room:
		return fmt.Errorf("a page of %d bytes where %d are left", h.packed, room)
	case h.kind == indexPage:
		h.unpacked = 0
		return nil
	case h.values < 0 || h.kind != dictPage && h.values > left:
		return fmt.Errorf("a page of %d values where %d are left", h.values, left)
	case h.kind == dictPage && h.values > h.unpacked+1:
		return fmt.Errorf("a dictionary of %d values in %d bytes", h.values, h.unpacked)
	}
	// The best packings make some 1,000 bytes of one; runs of equal values count by value.
	most := 1<<20 + 1100*h.packed + 64*h.values
	if ch.codec == 0 {
		most = h.packed
	}
	if h.unpacked < 0 || h.unpacked > most || ch.codec == 0 && h.unpacked != h.packed {
		return fmt.Errorf("a page that unpacks from %d bytes to %d", h.packed, h.unpacked)
	}
	if h.defBytes < 0 || h.repByte < 0 || h.defBytes+h.repByte > min(h.packed, h.unpacked) {
		return fmt.Errorf("levels of %d bytes in a page of %d", h.defBytes+h.repByte, h.packed)
	}
	return nil
}

// unpack returns the page without packing, of exactly the length in its header.
func (h *pageHead) unpack(raw []byte, codec int64) ([]byte, error) {
	if h.kind == dataPageV2 {
		if h.plain || codec == 0 {
			return raw, nil
		}
		levels := h.defBytes + h.repByte
		if h.unpacked == levels {
			return raw[:levels], nil
		}
		body, err := unpack(raw[levels:], int(h.unpacked-levels), codec)
		return append(raw[:levels:levels], body...), err
	}
	return unpack(raw, int(h.unpacked), codec)
}

var packings = []string{"none", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"}

// zstds unpacks pages, to no more than they have room for.
var zstds = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(1<<27))
})

func unpack(raw []byte, size int, codec int64) (b []byte, err error) {
	switch codec {
	case 0:
		b = raw
	case 1:
		var n int
		if n, err = snappy.DecodedLen(raw); err == nil && n == size {
			b, err = snappy.Decode(make([]byte, size), raw)
		}
	case 2:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(raw)); err == nil {
			b, err = exactly(r, size)
		}
	case 4:
		b, err = exactly(brotli.NewReader(bytes.NewReader(raw)), size)
	case 6:
		var d *zstd.Decoder
		if d, err = zstds(); err == nil {
			b, err = d.DecodeAll(raw, make([]byte, 0, size))
		}
	case 7:
		b, err = unpackLZ4(make([]byte, 0, size), raw)
	default:
		name := fmt.Sprint(codec)
		if codec > 0 && codec < int64(len(packings)) {
			name = packings[codec]
		}
		return nil, fmt.Errorf("packed by %s; want none, SNAPPY, GZIP, BROTLI, ZSTD or LZ4_RAW", name)
	}
	if err != nil {
		return nil, fmt.Errorf("a page that cannot be unpacked: %w", err)
	}
	if len(b) != size {
		return nil, fmt.Errorf("a page unpacks to another length than the %d bytes it says", size)
	}
	return b, nil
}

// exactly reads size bytes, and one more if there is one.
func exactly(r io.Reader, size int) ([]byte, error) {
	b := make([]byte, size+1)
	n, err := io.ReadFull(r, b)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// unpackLZ4 appends an LZ4 block to b, within its capacity.
func unpackLZ4(b, raw []byte) ([]byte, error) {
	long := func(n int) int { // reads on where the four bits of a length are all set
		for v := byte(255); n >= 15 && v == 255 && n <= cap(b); {
			if len(raw) == 0 {
				return -1
			}
			v, raw = raw[0], raw[1:]
			n += int(v)
		}
		return n
	}
	for len(raw) > 0 {
		token := int(raw[0])
		raw = raw[1:]
		n := long(token >> 4)
		if n < 0 || n > len(raw) || n > cap(b)-len(b) {
			return nil, io.ErrUnexpectedEOF
		}
		b, raw = append(b, raw[:n]...), raw[n:]
		if len(raw) == 0 { // the last sequence has no match
			break
		}
		if len(raw) < 2 {
			return nil, io.ErrUnexpectedEOF
		}
		back := int(binary.LittleEndian.Uint16(raw))
		raw = raw[2:]
		n = long(token&15) + 4
		if n < 4 || back == 0 || back > len(b) || n > cap(b)-len(b) {
			return nil, io.ErrUnexpectedEOF
		}
		for ; n > 0; n-- {
			b = append(b, b[len(b)-back])
		}
	}
	return b, nil
}

// decode calls f with every value of a page of data.
func (h *pageHead) decode(body []byte, col *parquetColumn, dict *dictionary, f func(cell) error) error {
	var levels *hybrid
	width := bits.Len(uint(col.maxDef))
	switch {
	case h.kind == dataPageV2:
		levels = &hybrid{b: body[h.repByte : h.repByte+h.defBytes], width: width}
		body = body[h.repByte+h.defBytes:]
	case col.maxDef > 0:
		if h.levels != encRLE {
			return fmt.Errorf("levels are encoded by %s", encodingName(h.levels))
		}
		b, rest, err := prefixed(body)
		if err != nil {
			return err
		}
		levels, body = &hybrid{b: b, width: width}, rest
	}
	// Decoders need the number of values, without nulls.
	here := h.values
	if col.maxDef > 0 {
		count := *levels
		here = 0
		for range h.values {
			level, err := count.next()
			if err != nil {
				return err
			}
			if int(level) == col.maxDef {
				here++
			}
		}
	}
	next, err := decoder(h.encoding, body, col.kind, dict, int(here))
	if err != nil {
		return err
	}
	for range h.values {
		c := cell{null: true}
		level := uint32(col.maxDef)
		if col.maxDef > 0 {
			if level, err = levels.next(); err != nil {
				return err
			}
		}
		if int(level) == col.maxDef {
			if c, err = next(); err != nil {
				return err
			}
		}
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// prefixed takes bytes off b after their length, of four bytes.
func prefixed(b []byte) (head, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := 4 + binary.LittleEndian.Uint32(b)
	return b[4:n:n], b[n:], nil
}
