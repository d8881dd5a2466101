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
		t.left.ending(name)
		return nil
	}
	return t.add(file{name: name, kind: k, size: size, in: in})
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
	m := &members{from: from}
	for i, z := range zr.File {
		if strings.HasSuffix(z.Name, "/") || z.Mode().IsDir() {
			continue
		}
		raw := z.Name
		if !strings.Contains(raw, "/") { // as Windows packs folders
			raw = strings.ReplaceAll(raw, `\`, "/")
		}
		name, ok := memberName(raw)
		if !ok {
			m.left.add("named to climb out of their archive", 1)
			continue
		}
		e := file{name: name, kind: imageKind, at: int64(i), size: int64(z.UncompressedSize64), in: zipped{zr, f}, from: from}
		if err := m.unzip(z, e); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return t.addMembers(m)
}

// unzip adds one entry of a zip. Archives in it are not opened.
func (m *members) unzip(z *zip.File, e file) error {
	link := z.Mode()&fs.ModeSymlink != 0
	switch {
	case !link && !z.Mode().IsRegular():
		m.left.add("that are devices, pipes or the like", 1)
		return nil
	case !link && hasImageName(e.name):
		return m.add(e)
	}
	r, err := z.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if link {
		to, err := readAll(r, 1<<12)
		if err != nil {
			return err
		}
		return m.link(e.name, symbolic(e.name, string(to)))
	}
	br := bufio.NewReader(r)
	if e.kind, _, err = sniffEntry(e.name, br, e.size); err != nil {
		return err
	}
	switch e.kind {
	case otherKind, tarKind, zipKind, parquetKind:
		m.unread(e)
		return nil
	case classKind:
		return m.annotated(e, br)
	}
	return m.add(e)
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
