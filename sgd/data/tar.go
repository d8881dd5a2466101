package data

import (
	"archive/tar"
	"bufio"
	"encoding/json"
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
// class); without, the content.
type tarScan struct {
	from  string
	on    *os.File // nil: contents are held
	lazy  bool     // of what is not at hand only texts are wanted
	files []file
	class map[string]string // of a picture, by its name up to the first dot: WebDataset
	held  blobs
	total int64
	work  *work
}

// errPacked refuses pictures in a compressed tar.
var errPacked = errors.New("a compressed tar cannot be read at random; unpack it, or decompress it to a .tar")

// addPacked adds the entries of a compressed tar.
func (t *tree) addPacked(from string, r io.Reader) error {
	s := &tarScan{from: from, lazy: t.lazy, class: map[string]string{}}
	if err := s.scan(tar.NewReader(r), nil, 0, ""); err != nil {
		return err
	}
	return t.addAll(s.finish())
}

// addSections adds the entries of an uncompressed tar, from its index if there is
// one.
func (t *tree) addSections(from string, on *os.File, st fs.FileInfo) error {
	list, ok := readIndex(t.index, on.Name(), st)
	if !ok {
		s := &tarScan{from: from, on: on, class: map[string]string{}}
		if t.work != nil {
			s.work = t.work(from, st.Size())
		}
		in := io.NewSectionReader(on, 0, st.Size())
		if err := s.scan(tar.NewReader(in), in, 0, ""); err != nil {
			return err
		}
		s.work.end()
		list = s.finish()
		writeIndex(t.index, on.Name(), st, list)
	}
	for i := range list {
		list[i].from, list[i].in = from, section{on}
	}
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
		name, ok := entryName(h.Name)
		if !ok || h.Typeflag != tar.TypeReg || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "" {
			continue
		}
		f := file{name: path.Join(dir, name), kind: imageKind, size: h.Size, from: s.from}
		if in != nil {
			// tar.Reader reads whole blocks and nothing ahead: the content
			// begins where the file now stands.
			at, err := in.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			f.at = base + at
		}
		br.Reset(tr)
		if !hasImageName(name) {
			if f.kind, f.size, err = sniffEntry(name, br, h.Size); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := s.entry(f, br, in != nil && base == 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if base == 0 {
			s.work.add(512 + h.Size)
		}
	}
}

// entry adds one entry. Tars are opened where that is asked for.
func (s *tarScan) entry(f file, br *bufio.Reader, open bool) error {
	switch {
	case f.kind == otherKind, f.kind == zipKind, f.kind == parquetKind:
		return nil
	case f.kind == tarKind:
		if !open {
			return nil
		}
		in := io.NewSectionReader(s.on, f.at, f.size)
		return s.scan(tar.NewReader(in), in, f.at, strings.TrimSuffix(f.name, path.Ext(f.name)))
	case f.kind == classKind && f.size > 1<<20: // annotations of many pictures
		return nil
	case f.kind == classKind:
		b, err := readAll(br, 1<<20)
		if class := classIn(f.name, b); err == nil && class != "" && (path.Ext(f.name) == ".cls" || s.class[wdsKey(f.name)] == "") {
			s.class[wdsKey(f.name)] = class
		}
		return err
	case s.on == nil && s.lazy && f.kind.samples():
		return errPacked
	case s.on == nil:
		limit := min(maxHeld-s.total, maxBlob)
		if f.kind == imageKind {
			limit = min(limit, maxImage)
		}
		b, err := readAll(br, limit)
		if err != nil {
			return err
		}
		s.total += int64(len(b))
		f.at, f.in = int64(len(s.held.b)), &s.held
		s.held.b = append(s.held.b, b)
	}
	if len(s.files) >= maxFiles {
		return fmt.Errorf("more than %d files", maxFiles)
	}
	s.files = append(s.files, f)
	return nil
}

// finish gives the pictures of a WebDataset their classes.
func (s *tarScan) finish() []file {
	if len(s.class) > 0 {
		for i := range s.files {
			s.files[i].class = s.class[wdsKey(s.files[i].name)]
		}
	}
	return s.files
}

// wdsKey is what the files of one sample of a WebDataset have in common: the name up
// to its first dot.
func wdsKey(name string) string {
	dir, base := path.Split(name)
	key, _, _ := strings.Cut(base, ".")
	return dir + key
}

// classIn reads the class out of a .cls, which is nothing else, or a .json; "" if
// there is none.
func classIn(name string, b []byte) string {
	if path.Ext(name) == ".cls" {
		class := strings.TrimSpace(string(b))
		if strings.ContainsAny(class, " \t\n/\x00") || len(class) > 256 {
			return ""
		}
		return class
	}
	var fields map[string]any
	if json.Unmarshal(b, &fields) != nil {
		return ""
	}
	for _, key := range []string{"cls", "label", "class", "wnid"} {
		switch v := fields[key].(type) {
		case string:
			return strings.ReplaceAll(v, "/", "_")
		case float64:
			return fmt.Sprint(v)
		}
	}
	return ""
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
