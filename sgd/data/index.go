package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// The index of a tar is what it took a walk through all of it to find: names,
// offsets and classes. It lies in the cache's folder "index", one file a tar:
//
//	"gradlab index 2\n" | text: path, size and time of change of the tar | counts | entries | CRC-32C
//
// Counts are how many there are, and of each what is left out, and how often. An entry
// is a kind, name, offset, size and class; numbers are varints, texts behind their
// lengths. An index of a tar that has changed since is not read, nor
// one that is damaged.
const indexMagic = "gradlab index 2\n"

// indexOf is where the index of a tar is, and what it must begin with.
func indexOf(dir, tar string, st fs.FileInfo) (file, head string) {
	if abs, err := filepath.Abs(tar); err == nil {
		tar = abs
	}
	sum := sha256.Sum256([]byte(tar))
	return filepath.Join(dir, hex.EncodeToString(sum[:16])+".index"),
		fmt.Sprintf("%s%s\n%d %d\n", indexMagic, tar, st.Size(), st.ModTime().UnixNano())
}

// readIndex reads the index of a tar; ok is false if there is none that holds.
func readIndex(dir, tar string, st fs.FileInfo) (list []file, left tally, ok bool) {
	if dir == "" {
		return nil, nil, false
	}
	at, head := indexOf(dir, tar, st)
	b, err := os.ReadFile(at)
	if err != nil || !bytes.HasPrefix(b, []byte(head)) || len(b) < len(head)+4 {
		return nil, nil, false
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, nil, false
	}
	r := reader{b: body[len(head):]}
	for n := r.number(); n > 0 && !r.bad; n-- {
		why := r.text()
		left.add(why, int(r.number()))
	}
	if r.bad {
		return nil, nil, false
	}
	for len(r.b) > 0 {
		f := file{kind: kind(r.number()), name: r.text(), at: r.number(), size: r.number(), class: r.text()}
		if r.bad || !fs.ValidPath(f.name) || f.at < 0 || f.size < 0 || f.at > st.Size()-f.size {
			return nil, nil, false
		}
		list = append(list, f)
	}
	return list, left, true
}

// reader takes numbers and texts off b.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<62 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

func (r *reader) text() string {
	n := r.number()
	if n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// writeIndex keeps the index of a tar. Where that does not succeed the tar is walked
// through again the next time, and nothing else is lost.
func writeIndex(dir, tar string, st fs.FileInfo, list []file, left tally) {
	if dir == "" || os.MkdirAll(dir, 0o755) != nil {
		return
	}
	at, head := indexOf(dir, tar, st)
	b := binary.AppendUvarint([]byte(head), uint64(len(left)))
	for _, why := range slices.Sorted(maps.Keys(left)) {
		b = append(binary.AppendUvarint(b, uint64(len(why))), why...)
		b = binary.AppendUvarint(b, uint64(left[why]))
	}
	for _, f := range list {
		b = binary.AppendUvarint(b, uint64(f.kind))
		b = append(binary.AppendUvarint(b, uint64(len(f.name))), f.name...)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(f.at)), uint64(f.size))
		b = append(binary.AppendUvarint(b, uint64(len(f.class))), f.class...)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	tmp, err := os.CreateTemp(dir, filepath.Base(at)+".*.part")
	if err != nil {
		return
	}
	_, err = tmp.Write(b)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), at)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
}
