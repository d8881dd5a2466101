// Package tensorboard writes event files, which TensorBoard and its relatives
// read: scalars, histograms, text and the hyperparameters of a run.
//
// A file is a row of records, each framed as TFRecord does (length, masked
// CRC32C of the length, payload, masked CRC32C of the payload, little-endian),
// and each payload is a protobuf message Event. Its few fields are written by
// hand; message.go has their numbers.
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"
)

// Writer appends events to a file. It is not safe for concurrent use.
type Writer struct {
	w   io.Writer
	buf []byte // a record: 12 bytes of head, the payload, 4 bytes of tail
}

// Open begins an event file on w with the record that says which version of
// the format follows. Each record reaches w in one Write.
func Open(w io.Writer, at time.Time) (*Writer, error) {
	t := &Writer{w: w}
	return t, t.record(func(b []byte) []byte { return appendVersion(b, at) })
}

// Restart says that the run goes on from a step: events of that step and later
// ones that earlier files of the folder hold are void.
func (t *Writer) Restart(at time.Time, step int) error {
	return t.record(func(b []byte) []byte { return appendRestart(b, at, step) })
}

// Write appends values of one step. No values is no event.
func (t *Writer) Write(at time.Time, step int, values ...Value) error {
	if len(values) == 0 {
		return nil
	}
	return t.record(func(b []byte) []byte { return appendEvent(b, at, step, values) })
}

const head, tail = 12, 4

func (t *Writer) record(payload func([]byte) []byte) error {
	t.buf = append(t.buf[:0], make([]byte, head)...)
	t.buf = payload(t.buf)
	n := uint64(len(t.buf) - head)
	binary.LittleEndian.PutUint64(t.buf, n)
	binary.LittleEndian.PutUint32(t.buf[8:], checksum(t.buf[:8]))
	t.buf = binary.LittleEndian.AppendUint32(t.buf, checksum(t.buf[head:]))
	_, err := t.w.Write(t.buf)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC32C of b, masked as TFRecord wants it: a CRC of data that
// holds CRCs is weak.
func checksum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// FileName is the name TensorBoard looks for; n tells files of one second apart.
func FileName(at time.Time, host string, pid, n int) string {
	return fmt.Sprintf("%s%010d.%s.%d.%d", prefix, at.Unix(), host, pid, n)
}

const prefix = "events.out.tfevents."

// MadeAt is the instant in a name of FileName, to a second; not ok for other names.
func MadeAt(name string) (at time.Time, ok bool) {
	rest, is := strings.CutPrefix(name, prefix)
	text, _, _ := strings.Cut(rest, ".")
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), is && err == nil
}
