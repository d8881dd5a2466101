package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// A decoded set is an image folder in one file, so that the next run reads
// bytes instead of decoding JPEGs:
//
//	"gradlab shard 2\n" | u32 length | JSON head | labels, pixels of train | of test
//
// Integers are little endian. Its name is a hash of the pictures' files, the
// geometry and the Go release (decoders differ between releases by a rounding),
// so the file is never stale; its digest is checked, so it is never torn. It is mapped
// into memory, so the runs of a sweep, a process each, share one copy of the pixels.
const decodedMagic = "gradlab shard 2\n"

type decodedHead struct {
	Shape   sgd.Shape
	Classes int
	Len     [2]int
	Digest  uint64
	Notes   []string
	Left    int `json:",omitempty"` // pictures left out, as they cannot be read
}

// decodedKey identifies what decoding would give.
func decodedKey(r *recipe, parts [2][]labelled, raw [2][][]byte) string {
	h := sha256.New()
	h.Write([]byte(decodedMagic + runtime.Version() + r.name + r.shape.String()))
	var word [8]byte
	for p := range raw {
		for i, b := range raw[p] {
			binary.LittleEndian.PutUint32(word[:4], uint32(len(b)))
			binary.LittleEndian.PutUint32(word[4:], uint32(parts[p][i].label)<<1|uint32(p))
			h.Write(word[:])
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readDecoded reads the decoded set of key in dir; ok is false if there is none or it
// is damaged.
func readDecoded(dir, key string) (l loaded, ok bool) {
	if dir == "" {
		return l, false
	}
	b, hold, err := regular.Map(filepath.Join(dir, key+".shard"))
	if err != nil || !bytes.HasPrefix(b, []byte(decodedMagic)) || len(b) < len(decodedMagic)+4 {
		return l, false
	}
	b = b[len(decodedMagic):]
	n := uint64(binary.LittleEndian.Uint32(b))
	var head decodedHead
	if b = b[4:]; n > uint64(len(b)) || json.Unmarshal(b[:n], &head) != nil {
		return l, false
	}
	b, l.notes, l.left = b[n:], head.Notes, head.Left
	dim := head.Shape.Len()
	for p, count := range head.Len {
		if count < 1 || dim < 1 || count > len(b)/(4+dim) {
			return l, false
		}
		m := &images{sh: head.Shape, cls: head.Classes, label: make([]int32, count), hold: hold}
		for i := range m.label {
			m.label[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
		}
		m.pix, b = b[4*count:(4+dim)*count:(4+dim)*count], b[(4+dim)*count:]
		l.parts[p] = m
	}
	ok = len(b) == 0 && digest(l.parts[:]...) == head.Digest
	runtime.KeepAlive(hold)
	return l, ok
}

// writeDecoded stores l, if there is a folder to keep it in.
func writeDecoded(dir, key string, l loaded) (err error) {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, key+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(f.Name(), filepath.Join(dir, key+".shard"))
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	a, b := l.parts[0], l.parts[1]
	head, err := json.Marshal(decodedHead{Shape: a.sh, Classes: a.cls, Len: [2]int{len(a.label), len(b.label)}, Digest: digest(a, b), Notes: l.notes, Left: l.left})
	if err != nil {
		return err
	}
	pre := binary.LittleEndian.AppendUint32([]byte(decodedMagic), uint32(len(head)))
	pieces := [][]byte{append(pre, head...)}
	for _, m := range l.parts {
		var labels []byte
		for _, y := range m.label {
			labels = binary.LittleEndian.AppendUint32(labels, uint32(y))
		}
		pieces = append(pieces, labels, m.pix)
	}
	for _, p := range pieces {
		if _, err := f.Write(p); err != nil {
			return err
		}
	}
	return nil
}
