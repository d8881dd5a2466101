package data

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// addFile looks into a file of a folder and adds it, or what is in it.
func (t *tree) addFile(in folder, name string) error {
	f, err := in.file(name)
	if err != nil {
		return t.wrap(name, err)
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	st, err := f.Stat()
	if err != nil {
		return t.wrap(name, err)
	}
	src := &counted{Reader: f}
	br, packed, err := unwrap(src)
	if err != nil {
		return t.wrap(name, err)
	}
	head, err := br.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return t.wrap(name, err)
	}
	size := st.Size()
	if packed {
		size = -1
	}
	k := sniff(name, head, size)
	switch {
	case k == tarKind && packed:
		if t.work != nil {
			src.work = t.work(name, st.Size())
			defer src.work.end() // what lies behind the last entry is not read
		}
		return t.wrap(name, t.addPacked(name, br))
	case k == tarKind:
		keep = true
		t.close = append(t.close, f)
		return t.wrap(name, t.addSections(name, f, st))
	case k == zipKind && !packed:
		keep = true
		t.close = append(t.close, f)
		return t.wrap(name, t.addZip(name, f, size))
	case k == parquetKind && !packed:
		return t.wrap(name, t.addParquet(name, f, size))
	case k == otherKind || k == zipKind || k == parquetKind:
		return nil
	}
	return t.add(file{name: name, kind: k, size: size, in: in})
}

// entryName cleans the name of an archive's entry; ok is false for one that is
// hidden or climbs out.
func entryName(name string) (string, bool) {
	name = path.Clean(strings.TrimPrefix(name, "./"))
	return name, fs.ValidPath(name) && name != "." && !strings.HasPrefix(path.Base(name), ".")
}

// sniffEntry recognises an entry, looking through gzip without consuming
// anything.
func sniffEntry(name string, br *bufio.Reader, size int64) (kind, int64, error) {
	head, err := br.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return otherKind, 0, err
	}
	if in, packed, err := unwrap(bytes.NewReader(head)); err == nil && packed {
		head, _ = in.Peek(headBytes) // what little the head unpacks to
		if k := sniff(name, head, -1); k == idxKind {
			return k, size, nil
		}
		return otherKind, 0, nil
	}
	return sniff(name, head, size), size, nil
}

// addZip adds the entries of a zip.
func (t *tree) addZip(from string, f *os.File, size int64) error {
	zr, err := zip.NewReader(f, size)
	if err != nil {
		return err
	}
	for i, z := range zr.File {
		name, ok := entryName(z.Name)
		if !ok || !z.Mode().IsRegular() {
			continue
		}
		e := file{name: name, kind: imageKind, at: int64(i), size: int64(z.UncompressedSize64), in: zipped{zr, f}, from: from}
		if !hasImageName(name) {
			r, err := z.Open()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			e.kind, _, err = sniffEntry(name, bufio.NewReader(r), e.size)
			r.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if e.kind == otherKind || e.kind == tarKind || e.kind == zipKind || e.kind == parquetKind { // archives in it are not opened
				continue
			}
		}
		if err := t.add(e); err != nil {
			return err
		}
	}
	return nil
}

// section is the volume of an uncompressed tar: file.at is an offset.
type section struct{ *os.File }

func (s section) open(f *file) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.File, f.at, f.size)), nil
}

// blobs is the volume of a compressed tar, held in memory: file.at is an index.
type blobs struct{ b [][]byte }

func (v *blobs) open(f *file) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(v.b[f.at])), nil
}

// zipped is the volume of a zip: file.at is an index.
type zipped struct {
	*zip.Reader
	on *os.File
}

// stored is the content of a file that is in the zip without compression.
func (z zipped) stored(f *file) (io.ReaderAt, int64, bool) {
	e := z.File[f.at]
	at, err := e.DataOffset()
	if err != nil || e.Method != zip.Store || e.Flags&1 != 0 {
		return nil, 0, false
	}
	return io.NewSectionReader(z.on, at, int64(e.UncompressedSize64)), int64(e.UncompressedSize64), true
}

func (z zipped) open(f *file) (io.ReadCloser, error) { return z.File[f.at].Open() }
