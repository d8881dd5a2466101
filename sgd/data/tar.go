package data

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// tarScan lists the entries of a tar. With the file at hand only offsets are kept,
// those of tars within it too (ImageNet's training pictures come as a tar of a tar a
// class); without, the content, as of members with holes.
type tarScan struct {
	members
	on    *os.File // nil: contents are held
	lazy  bool     // of what is not at hand only texts are wanted
	held  blobs
	total int64
	work  *work
}

// errPacked refuses pictures in a compressed tar.
var errPacked = errors.New("a compressed tar cannot be read at random; unpack it, or decompress it to a .tar")

// addPacked adds the entries of a compressed tar.
func (t *tree) addPacked(from string, r io.Reader) error {
	s := &tarScan{members: members{from: from}, lazy: t.lazy}
	if err := s.scan(tar.NewReader(r), nil, 0, ""); err != nil {
		return err
	}
	return t.addMembers(&s.members)
}

// addMembers adds what is in an archive that was looked through.
func (t *tree) addMembers(m *members) error {
	list, err := m.finish()
	if err != nil {
		return err
	}
	t.left.merge(m.left)
	return t.addAll(list)
}

// addSections adds the entries of an uncompressed tar, from its index if there is
// one.
func (t *tree) addSections(from string, on *os.File, st fs.FileInfo) error {
	list, left, ok := readIndex(t.index, on.Name(), st)
	if !ok {
		s := &tarScan{members: members{from: from}, on: on}
		if t.work != nil {
			s.work = t.work(from, st.Size())
		}
		in := io.NewSectionReader(on, 0, st.Size())
		if err := s.scan(tar.NewReader(in), in, 0, ""); err != nil {
			return err
		}
		s.work.end()
		var err error
		if list, err = s.finish(); err != nil {
			return err
		}
		if left = s.left; s.total == 0 { // nothing is held beside the file
			writeIndex(t.index, on.Name(), st, list, left)
		}
	}
	for i := range list {
		if list[i].from = from; list[i].in == nil {
			list[i].in = section{on}
		}
	}
	t.left.merge(left)
	return t.addAll(list)
}

func (t *tree) addAll(list []file) error {
	for _, f := range list {
		if err := t.add(f); err != nil {
			return err
		}
	}
	return nil
}

// scan lists the entries of a tar, whose content begins at byte base of the file;
// their names are put below dir. in is what tr reads from, nil if that cannot seek.
func (s *tarScan) scan(tr *tar.Reader, in *io.SectionReader, base int64, dir string) error {
	br := bufio.NewReaderSize(nil, 4096)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, ok := memberName(h.Name)
		if !ok {
			s.left.add("named to climb out of their archive", 1)
			continue
		}
		f := file{name: path.Join(dir, name), kind: imageKind, size: h.Size, from: s.from}
		sparse := h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != ""
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		case tar.TypeLink:
			to, ok := memberName(h.Linkname)
			if to = path.Join(dir, to); !ok {
				to = ".."
			}
			if err := s.link(f.name, to); err != nil {
				return err
			}
			continue
		case tar.TypeSymlink:
			if err := s.link(f.name, symbolic(f.name, h.Linkname)); err != nil {
				return err
			}
			continue
		default:
			s.left.add("that are devices, pipes or the like", 1)
			continue
		}
		if in != nil && !sparse {
			// tar.Reader reads whole blocks and nothing ahead: the content
			// begins where the file now stands.
			at, err := in.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			f.at = base + at
		}
		br.Reset(tr)
		if !hasImageName(f.name) {
			if f.kind, f.size, err = sniffEntry(f.name, br, h.Size); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		if err := s.entry(f, br, in != nil && base == 0, sparse); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if base == 0 {
			s.work.add(512 + h.Size)
		}
	}
}

// entry adds one entry. Tars are opened where that is asked for. The content of a sparse
// one, whose holes are not in the file, is held.
func (s *tarScan) entry(f file, br *bufio.Reader, open, sparse bool) error {
	hold := s.on == nil || sparse
	switch {
	case f.kind == tarKind && open && sparse && !isHidden(f.name):
		return errors.New("an archive in a sparse member; pack it without --sparse")
	case f.kind == tarKind && open && !isHidden(f.name):
		in := io.NewSectionReader(s.on, f.at, f.size)
		return s.scan(tar.NewReader(in), in, f.at, strings.TrimSuffix(f.name, path.Ext(f.name)))
	case f.kind == otherKind, f.kind == zipKind, f.kind == parquetKind, f.kind == tarKind, hold && isHidden(f.name):
		s.unread(f)
		return nil
	case f.kind == classKind:
		return s.annotated(f, br)
	case s.on == nil && s.lazy && f.kind.samples():
		return errPacked
	case hold:
		limit := min(maxHeld-s.total, maxBlob)
		if f.kind == imageKind {
			limit = min(limit, maxImage)
		}
		b, err := readAll(br, limit)
		if err != nil {
			return err
		}
		s.total += int64(len(b))
		f.at, f.in, f.size = int64(len(s.held.b)), &s.held, int64(len(b))
		s.held.b = append(s.held.b, b)
	}
	return s.add(f)
}

// ofImageNet is the files to read of a folder that has ImageNet's training tar and not
// the folders it is unpacked to, or shards of a WebDataset: those tars, the development kit
// and texts. Other data sets may lie beside them. It is nil for any other folder.
func ofImageNet(entries []fs.DirEntry) (names []string) {
	var shards []string
	found := false
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		switch ext := path.Ext(name); {
		case e.IsDir() && splitOf(name) >= 0:
			return nil
		case e.IsDir():
		case isShard(name):
			shards = append(shards, e.Name())
		case strings.HasPrefix(name, "ilsvrc2012_img_t") && !strings.Contains(name, "train"): // test pictures have no labels
		case strings.HasPrefix(name, "ilsvrc"), ext == ".txt", ext == ".csv", ext == ".mat":
			found = found || strings.HasPrefix(name, "ilsvrc2012_img_train") && ext == ".tar"
			names = append(names, e.Name())
		}
	}
	switch {
	case found:
		return names
	case shards != nil: // and what may name their classes, or is for testing
		return append(names, shards...)
	}
	return nil
}

// isShard tells whether a file is a shard of ImageNet by its name, in small letters:
// imagenet1k-validation-07.tar.
func isShard(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	n := len(words)
	if n < 4 || words[n-1] != "tar" || strings.Trim(words[n-2], "0123456789") != "" {
		return false
	}
	return recipes["imagenet"].claims(name) && slices.ContainsFunc(words[1:n-2], func(w string) bool { return splitOf(w) >= 0 })
}
