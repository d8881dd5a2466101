package text

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// Tokens is a stretch of tokens: two bytes each or, where Wide, four, the lowest first. They
// may be those of a file, which is read as they are needed.
type Tokens struct {
	Name  string // of the file, in errors; "": they are in memory
	Bytes []byte
	Wide  bool

	hold *regular.Mapping // keeps a mapped file from being let go of
}

// Len is how many there are.
func (t Tokens) Len() int { return len(t.Bytes) / t.size() }

func (t Tokens) size() int {
	if t.Wide {
		return 4
	}
	return 2
}

// Slice is tokens lo to hi−1.
func (t Tokens) Slice(lo, hi int) Tokens {
	t.Bytes = t.Bytes[lo*t.size() : hi*t.size()]
	return t
}

// At is token i.
func (t Tokens) At(i int) int32 {
	if t.Wide {
		return int32(binary.LittleEndian.Uint32(t.Bytes[4*i:]))
	}
	return int32(binary.LittleEndian.Uint16(t.Bytes[2*i:]))
}

// Files of tokens with a header: of 256 numbers of four bytes the first is the magic number,
// then the version and how many tokens there are. llm.c and modded-nanogpt write them.
const (
	headerBytes = 4 * 256
	magic       = 20240520
	magicWide   = 20240801 // tokens of four bytes
)

// OpenTokens maps a file of tokens, as nanoGPT writes them, with two bytes each and nothing
// else, or with the header of llm.c and modded-nanogpt.
func OpenTokens(path string) (Tokens, error) {
	b, hold, err := regular.Map(path)
	if err != nil {
		return Tokens{}, err
	}
	t := Tokens{Name: path, Bytes: b, hold: hold}
	if len(b) >= headerBytes {
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
		if kind := word(0); kind == magic || kind == magicWide {
			t.Bytes, t.Wide = b[headerBytes:], kind == magicWide
			if n := int(word(2)); t.Len() != n || len(t.Bytes)%t.size() != 0 {
				return Tokens{}, fmt.Errorf("%s: its header says %d tokens of version %d, %d bytes; it has %d", path, n, word(1), n*t.size(), len(t.Bytes))
			}
		}
	}
	if len(b)%2 != 0 {
		return Tokens{}, fmt.Errorf("%s: %d bytes, which is no whole number of tokens of two bytes", path, len(b))
	}
	return t, nil
}

// Windows are samples: Context tokens each, whose labels are the tokens that follow them.
// One begins at every Stride-th token of each stretch, and none reaches from one stretch into
// another. They are a store of package data.
type Windows struct {
	of         []Tokens
	ends       []int // how many windows there are up to the end of each stretch
	stride     int
	form       sgd.Sample
	vocabulary int
}

// NewWindows cuts stretches of tokens into windows. A token of the test set has so many bytes,
// on the mean; 0: that is not known.
func NewWindows(of []Tokens, stride, context, vocabulary int, bytes float64) *Windows {
	w := &Windows{of: of, stride: stride, vocabulary: vocabulary, form: sgd.Sample{
		Shape: sgd.Shape{C: 1, H: context, W: 1}, Vocabulary: vocabulary, Classes: vocabulary, Targets: context, Bytes: bytes,
	}}
	n := 0
	for _, t := range of {
		n += max(0, t.Len()-1-context+stride) / stride
		w.ends = append(w.ends, n)
	}
	return w
}

// Tokens is how many tokens there are, in windows or not.
func (w *Windows) Tokens() (n int) {
	for _, t := range w.of {
		n += t.Len()
	}
	return n
}

// Len is how many windows there are.
func (w *Windows) Len() int {
	if len(w.ends) == 0 {
		return 0
	}
	return w.ends[len(w.ends)-1]
}

// Sample is the form of a window.
func (w *Windows) Sample() sgd.Sample { return w.form }

// Read writes window i. The error names a token that is not in the vocabulary, which only
// files of tokens can have.
func (w *Windows) Read(i int, tokens, labels []int32) error {
	k, _ := slices.BinarySearch(w.ends, i+1)
	if k > 0 {
		i -= w.ends[k-1]
	}
	t, at := w.of[k], i*w.stride
	for j := range w.form.Targets + 1 {
		token := t.At(at + j)
		if token < 0 || int(token) >= w.vocabulary {
			return fmt.Errorf("%s: token %d of the file is %d; the vocabulary has %d", t.Name, at+j, uint32(token), w.vocabulary)
		}
		if j < len(tokens) {
			tokens[j] = token
		}
		if j > 0 {
			labels[j-1] = token
		}
	}
	return nil
}

// Split cuts off a share of the tokens at the end.
func Split(of []Tokens, share float64) (head, tail []Tokens) {
	n := 0
	for _, t := range of {
		n += t.Len()
	}
	n = int((1 - share) * float64(n))
	for _, t := range of {
		k := min(n, t.Len())
		n -= k
		if k > 0 {
			head = append(head, t.Slice(0, k))
		}
		if k < t.Len() {
			tail = append(tail, t.Slice(k, t.Len()))
		}
	}
	return head, tail
}

// MeanBytes is how many bytes a token stands for, on the mean over stretches; 0 if the
// vocabulary is not known.
func MeanBytes(of []Tokens, v sgd.Vocabulary) float64 {
	if _, unknown := v.(numbers); unknown {
		return 0
	}
	sizes := make([]int, v.Len())
	for token := range sizes {
		sizes[token] = len(v.Decode(nil, int32(token)))
	}
	sum, n := 0, 0
	for _, t := range of {
		n += t.Len()
		for i := range t.Len() {
			if token := t.At(i); token >= 0 && int(token) < len(sizes) {
				sum += sizes[token]
			}
		}
	}
	return float64(sum) / float64(max(1, n))
}

// Hash is that of a vocabulary: of what its tokens stand for.
func Hash(v sgd.Vocabulary) uint64 {
	var b []byte
	for token := range v.Len() {
		b = append(v.Decode(b, int32(token)), 0)
	}
	return uint64(crc32.Checksum(b, castagnoli))<<32 | uint64(crc32.ChecksumIEEE(b))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hashed is how much of the tokens is hashed as it is; of more, as many blocks at even
// distances.
const (
	hashed    = 1 << 30
	hashBlock = 1 << 16
)

// Hash adds the tokens to a hash, two checksums that differ where texts do.
func (w *Windows) Hash(sum uint64) uint64 {
	a, b := uint32(sum>>32), uint32(sum)
	for _, t := range w.of {
		head := fmt.Appendf(nil, "%d %d %d %d;", len(t.Bytes), w.stride, w.form.Targets, w.vocabulary)
		a, b = crc32.Update(a, castagnoli, head), crc32.Update(b, crc32.IEEETable, head)
		for at := 0; at < len(t.Bytes); at += hashBlock * (1 + len(t.Bytes)/hashed) {
			block := t.Bytes[at:min(at+hashBlock, len(t.Bytes))]
			a, b = crc32.Update(a, castagnoli, block), crc32.Update(b, crc32.IEEETable, block)
		}
	}
	return uint64(a)<<32 | uint64(b)
}
