package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// kind is what a file turned out to be.
type kind uint8

const (
	otherKind kind = iota
	imageKind
	idxKind
	cifar10Kind
	cifar100Kind
	labelKind // text giving the class of each validation image
	tarKind
	zipKind
	pickleKind // dict of arrays, as Python packs it
	npyKind    // array, as NumPy saves it
	classKind  // text giving the class of the picture of the same name: WebDataset
	mapKind    // text giving the folder of each class by number
	parquetKind
)

// samples tells whether a file of the kind can hold samples, itself or within; the
// others say something about those of other files.
func (k kind) samples() bool {
	switch k {
	case otherKind, labelKind, classKind, mapKind, npyKind:
		return false
	}
	return true
}

// Bounds on what is read, so that a hostile file costs little.
const (
	maxBlob   = 1 << 30 // bytes of an IDX, CIFAR or label file, unpacked
	maxImage  = 1 << 26 // bytes of a picture file
	maxHeld   = 1 << 32 // bytes held of a compressed tar, and of decoded pixels
	maxFiles  = 1 << 24 // files in a set
	headBytes = 512     // enough to recognise everything
)

// sniff recognises a file by its first bytes; size is −1 where unknown. Only
// label files, being plain text, are told by their names.
func sniff(name string, head []byte, size int64) kind {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")), bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")), isWebP(head), isBMP(head), isGIF(head), isTIFF(head):
		return imageKind
	case bytes.HasPrefix(head, []byte("PAR1")):
		return parquetKind
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return zipKind
	case len(head) > 262 && string(head[257:262]) == "ustar", isOldTar(head):
		return tarKind
	case isIDX(head):
		return idxKind
	case isPickle(head):
		return pickleKind
	case bytes.HasPrefix(head, []byte("\x93NUMPY")):
		return npyKind
	}
	if k := isCIFAR(head, size); k != otherKind {
		return k
	}
	base := strings.ToLower(path.Base(name))
	switch ext := path.Ext(base); {
	case isNamed(base, labelTexts...):
		return labelKind
	case isNamed(base, "map_clsloc.txt"):
		return mapKind
	case ext == ".cls" || ext == ".json":
		return classKind
	}
	return otherKind
}

func isWebP(head []byte) bool {
	return len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP"
}

// isBMP recognises a bitmap by its magic, the reserved zeros and the size of its header.
func isBMP(head []byte) bool {
	if len(head) < 18 || string(head[:2]) != "BM" || !bytes.Equal(head[6:10], make([]byte, 4)) {
		return false
	}
	switch binary.LittleEndian.Uint32(head[14:]) {
	case 12, 40, 52, 56, 64, 108, 124:
		return true
	}
	return false
}

func isGIF(head []byte) bool {
	return bytes.HasPrefix(head, []byte("GIF87a")) || bytes.HasPrefix(head, []byte("GIF89a"))
}

func isTIFF(head []byte) bool {
	return bytes.HasPrefix(head, []byte("II*\x00")) || bytes.HasPrefix(head, []byte("MM\x00*"))
}

// isOldTar recognises a tar without a magic by its header's checksum.
func isOldTar(head []byte) bool {
	if len(head) < 512 || head[0] == 0 {
		return false
	}
	sum, want := 0, 0
	for i, c := range head[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	for _, c := range bytes.Trim(head[148:156], " \x00") {
		if c < '0' || c > '7' {
			return false
		}
		want = want<<3 | int(c-'0')
	}
	return sum == want
}

// hasImageName spares opening each of a million files of a folder tree: what
// is named as a picture is taken for one until it is decoded.
func hasImageName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff":
		return true
	}
	return false
}

// unwrap returns a reader of r's content, decompressed if it is gzip or zstd,
// and whether it was.
func unwrap(r io.Reader) (*bufio.Reader, bool, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	head, _ := br.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, true, err
		}
		return bufio.NewReaderSize(zr, 1<<16), true, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		zr, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<27))
		if err != nil {
			return nil, true, err
		}
		return bufio.NewReaderSize(zr, 1<<16), true, nil
	}
	return br, false, nil
}

// readAll reads r to its end, or fails beyond limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return b, err
}
