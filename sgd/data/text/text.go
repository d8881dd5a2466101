// Package text turns texts into tokens, and stretches of tokens into the windows that models
// of texts are trained on.
//
// A Kind says how texts are cut: into bytes, characters, or the byte pairs of a vocabulary
// that comes as files. Tokenise cuts documents. Windows are samples of what came out, or of
// files of tokens that another program wrote, which stay on disk.
package text

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
)

// Document is a file, or a row of a table: a text whose name stands in errors.
type Document struct {
	Name string
	Text []byte
}

// Documents calls a function with each document in turn, and ends with its first error. It
// can be called again.
type Documents func(each func(Document) error) error

// Kind is a way to cut texts into tokens.
type Kind interface {
	// Vocabulary is that of some documents; find says where a path of the options is. Errors
	// begin with the name of the document or of the file.
	Vocabulary(docs Documents, find func(path string) (string, error)) (sgd.Vocabulary, error)
}

// Kinds is every way by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Kinds = registry.New[Kind]("kind of tokens")

// Tokeniser is an option of a set: one of Kinds, in spec text.
type Tokeniser struct{ Kind }

// MarshalText writes spec text.
func (t Tokeniser) MarshalText() ([]byte, error) { return []byte(Kinds.Spec(t.Kind)), nil }

// UnmarshalText reads spec text.
func (t *Tokeniser) UnmarshalText(text []byte) (err error) {
	t.Kind, err = Kinds.Parse(string(text))
	return err
}

// Bytes cuts a text into its bytes: 256 tokens, whatever the text.
type Bytes struct{}

// Chars cuts a text of UTF-8 into characters. Tokens are in the order of code points; there
// are those that the documents have, at most 1,024.
type Chars struct{}

// IDs is for files of tokens whose vocabulary is not at hand: numbers below Size. No text can
// be cut, or written.
type IDs struct {
	Size int `doc:"how many different tokens there can be; GPT-2 has 50,257"`
}

var (
	_ = Kinds.Add("bytes", "bytes, 256 of them", Bytes{})
	_ = Kinds.Add("chars", "characters of UTF-8, at most 1,024 different ones", Chars{})
	_ = Kinds.Add("ids", "numbers in files of tokens, without a vocabulary", IDs{Size: 50257})
)

// MostTokens is how many tokens a vocabulary may have.
const MostTokens = 1 << 20

const mostCharacters = 1024 // different ones

// Vocabulary implements Kind. Nothing is read.
func (Bytes) Vocabulary(Documents, func(string) (string, error)) (sgd.Vocabulary, error) {
	return octets{}, nil
}

type octets struct{}

func (octets) Len() int { return 256 }

func (octets) Encode(dst []int32, text []byte) ([]int32, error) {
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst, nil
}

func (octets) Decode(dst []byte, token int32) []byte { return append(dst, byte(token)) }

// Vocabulary implements Kind: the characters of the documents.
func (Chars) Vocabulary(docs Documents, _ func(string) (string, error)) (sgd.Vocabulary, error) {
	v := &characters{class: map[rune]int32{}}
	err := docs(func(d Document) error {
		b := unmarked(d.Text)
		for at := 0; at < len(b); {
			r, n := utf8.DecodeRune(b[at:])
			if r == utf8.RuneError && n == 1 {
				return fmt.Errorf("%s:%d: byte %#x is no UTF-8; take tokens=bytes, or convert the file, for example with iconv -t utf-8", d.Name, line(b, at), b[at])
			}
			if v.class[r] = 0; len(v.class) > mostCharacters {
				return fmt.Errorf("%s:%d: more than %d different characters; take tokens=bytes", d.Name, line(b, at), mostCharacters)
			}
			at += n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for r := range v.class {
		v.order = append(v.order, r)
	}
	slices.Sort(v.order)
	for i, r := range v.order {
		v.class[r] = int32(i)
	}
	return v, nil
}

// unmarked is a text without the sign of its order of bytes.
func unmarked(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }

// line is the number of the line at a byte.
func line(text []byte, at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }

// characters is a vocabulary of characters, by their code points.
type characters struct {
	order []rune
	class map[rune]int32
}

func (v *characters) Len() int { return len(v.order) }

func (v *characters) Encode(dst []int32, text []byte) ([]int32, error) {
	for _, r := range string(unmarked(text)) {
		token, ok := v.class[r]
		if !ok {
			return dst, fmt.Errorf("character %q is not in the vocabulary of %d; it has %s", r, len(v.order), some(v.order))
		}
		dst = append(dst, token)
	}
	return dst, nil
}

// some shows up to 100 characters.
func some(of []rune) string {
	if len(of) > 100 {
		return fmt.Sprintf("%q and %d more", string(of[:100]), len(of)-100)
	}
	return fmt.Sprintf("%q", string(of))
}

func (v *characters) Decode(dst []byte, token int32) []byte {
	return utf8.AppendRune(dst, v.order[token])
}

// Validate checks the options.
func (k IDs) Validate() error {
	if k.Size < 2 || k.Size > MostTokens {
		return fmt.Errorf("option \"size\": want 2 to %d tokens, not %d", MostTokens, k.Size)
	}
	return nil
}

// Vocabulary implements Kind.
func (k IDs) Vocabulary(Documents, func(string) (string, error)) (sgd.Vocabulary, error) {
	return numbers(k.Size), nil
}

type numbers int

func (n numbers) Len() int { return int(n) }

var errNumbers = errors.New("tokens=ids has no texts, only numbers; say whose they are: tokens=bpe(path=…)")

func (numbers) Encode(dst []int32, _ []byte) ([]int32, error) { return dst, errNumbers }
func (numbers) Decode(dst []byte, token int32) []byte         { return fmt.Appendf(dst, "%d ", token) }

// ended is implemented by vocabularies with a token that ends a document.
type ended interface{ end() (token int32, ok bool) }

// Tokenise cuts documents, in turn. Of several each has the vocabulary's token of the end
// behind it, where there is one.
func Tokenise(docs Documents, v sgd.Vocabulary) (Tokens, error) {
	out := Tokens{Wide: v.Len() > 1<<16}
	var ids []int32
	end, n := int32(-1), 0
	if e, ok := v.(ended); ok {
		if token, ok := e.end(); ok {
			end = token
		}
	}
	put := func(token int32) {
		out.Bytes = append(out.Bytes, byte(token), byte(token>>8))
		if out.Wide {
			out.Bytes = append(out.Bytes, byte(token>>16), byte(token>>24))
		}
	}
	err := docs(func(d Document) (err error) {
		if n++; n == 2 && end >= 0 {
			put(end)
		}
		if ids, err = v.Encode(ids[:0], d.Text); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		for _, token := range ids {
			put(token)
		}
		if n > 1 && end >= 0 {
			put(end)
		}
		return nil
	})
	return out, err
}
