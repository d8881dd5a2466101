package data

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// Text is a text of one's own, for models that guess the next token. A sample is a window
// of Context tokens; its labels are the tokens that follow each of them. Tokens are
// characters, whose classes are in the order of their code points, or bytes.
//
// The last Test of the text is the test set, in windows side by side, so each of its tokens
// but the first is guessed once. In the training part a window begins at every token, and an
// epoch shows all of them: each token Context times. With Options.Validation the end of the
// training part is held out, in place of the test set. No window reaches from one part into
// another.
type Text struct {
	Path    string  `doc:"the file; below --data-dir, or as it is"`
	Tokens  string  `doc:"what a token is: chars (of UTF-8, at most 1,024 different ones) or bytes"`
	Context int     `doc:"tokens of a sample"`
	Test    float64 `doc:"share of the text, its end, that is the test set"`
}

var _ = Sets.Add("text", "your own text: after each token of a window, the next", Text{Tokens: "chars", Context: 64, Test: 0.1})

// Shakespeare is the 1,115,394 characters of plays of Shakespeare that char-rnn was shown
// with (Karpathy 2015): a Text of 65 different ones, the last tenth of which is the test set.
type Shakespeare struct {
	Tokens  string `doc:"what a token is: chars or bytes"`
	Context int    `doc:"tokens of a sample"`
}

var _ = Sets.Add("shakespeare", "plays of Shakespeare: after each character of a window, the next", Shakespeare{Tokens: "chars", Context: 64})

func (s Shakespeare) text() Text { return Text{Tokens: s.Tokens, Context: s.Context, Test: 0.1} }

// Validate checks the options.
func (s Shakespeare) Validate() error { return s.text().Validate() }

// Open reads the text into memory; there is nothing to augment.
func (s Shakespeare) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: shakespeare: %w", err)
	}
	loc, err := recipes["shakespeare"].find(o)
	if err != nil {
		return sgd.Dataset{}, err
	}
	ds, err := s.text().read(loc.Files[0].Path, o)
	if err != nil {
		return ds, fmt.Errorf("data: shakespeare: %w", err)
	}
	return ds, nil
}

const (
	mostCharacters = 1024  // different ones
	mostContext    = 65536 // tokens of a sample
)

// Validate checks the options.
func (s Text) Validate() error {
	if s.Context < 1 || s.Context > mostContext {
		return fmt.Errorf("option \"context\": want 1 to %d tokens, not %d", mostContext, s.Context)
	}
	if s.Tokens != "chars" && s.Tokens != "bytes" {
		return fmt.Errorf("option \"tokens\": want chars or bytes, not %q", s.Tokens)
	}
	return checkOwn(s.Test, "none")
}

func (Text) own() {}

// Open reads the text into memory, two bytes a token. There is nothing to
// augment. Errors name file and line.
func (s Text) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: text: %w", err)
	}
	path, err := ownPath("text", s.Path, o)
	if err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: text: %s", strings.TrimPrefix(err.Error(), "data: text: "))
	}
	ds, err := s.read(path, o)
	if err != nil {
		return ds, fmt.Errorf("data: text: %w", err)
	}
	return ds, nil
}

// read makes a set of the text in a file.
func (s Text) read(path string, o Options) (ds sgd.Dataset, err error) {
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return ds, err
	}
	tokenise := characters
	if s.Tokens == "bytes" {
		tokenise = octets
	}
	ids, classes, err := tokenise(b)
	if err != nil {
		return ds, fmt.Errorf("%s%w", path, err)
	}
	cut := int((1 - s.Test) * float64(len(ids)))
	train := &passage{ids: ids[:cut], stride: 1, context: s.Context, vocabulary: classes}
	test := &passage{ids: ids[cut:], stride: s.Context, context: s.Context, vocabulary: classes}
	if o.Validation > 0 {
		held := cut - int(o.Validation*float64(cut))
		train.ids, test.ids, o.Validation = ids[:held], ids[held:cut], 0
	}
	for p, part := range []*passage{train, test} {
		if part.len() < 1 {
			return ds, fmt.Errorf("%s: %d tokens in the %s part, want more than the %d of a sample", path, len(part.ids), [2]string{"training", "test"}[p], s.Context)
		}
	}
	ds = dataset(train, test, o, false)
	where := fmt.Sprintf("%s %d %d", s.Tokens, s.Context, cut)
	head, body := crc32.New(castagnoli), crc32.NewIEEE()
	head.Write(append([]byte(where), b...))
	body.Write(b)
	ds.Hash = uint64(head.Sum32())<<32 | uint64(body.Sum32())
	return ds, nil
}

// octets are the bytes of a text, and the number of different tokens there can be.
func octets(b []byte) (ids []uint16, classes int, err error) {
	ids = make([]uint16, len(b))
	for i, c := range b {
		ids[i] = uint16(c)
	}
	return ids, 256, nil
}

// characters numbers the characters of a text. Errors begin with a colon and the
// line.
func characters(b []byte) (ids []uint16, classes int, err error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	class := map[rune]uint16{}
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return nil, 0, fmt.Errorf(":%d: byte %#x is no UTF-8; take tokens=bytes, or convert the file, for example with iconv -t utf-8", 1+bytes.Count(b[:at], []byte("\n")), b[at])
		}
		if class[r] = 0; len(class) > mostCharacters {
			return nil, 0, fmt.Errorf(":%d: more than %d different characters; take tokens=bytes", 1+bytes.Count(b[:at], []byte("\n")), mostCharacters)
		}
		at += n
	}
	if len(class) < 2 {
		return nil, 0, fmt.Errorf(": %d different characters; want at least 2, to guess one", len(class))
	}
	var order []rune
	for r := range class {
		order = append(order, r)
	}
	slices.Sort(order)
	for i, r := range order {
		class[r] = uint16(i)
	}
	ids = make([]uint16, 0, len(b))
	for _, r := range string(b) {
		ids = append(ids, class[r])
	}
	return ids, len(order), nil
}

// passage is a stretch of a text. Window i begins at token i·stride.
type passage struct {
	ids                         []uint16
	stride, context, vocabulary int
}

func (p *passage) len() int { return max(0, len(p.ids)-1-p.context+p.stride) / p.stride }

func (p *passage) form() sgd.Sample {
	return sgd.Sample{
		Shape: sgd.Shape{C: 1, H: p.context, W: 1}, Vocabulary: p.vocabulary,
		Classes: p.vocabulary, Targets: p.context,
	}
}

func (p *passage) read(i int, _ jitter, to Item) error {
	at := i * p.stride
	for k, c := range p.ids[at : at+p.context] {
		to.Tokens[k] = int32(c)
	}
	for k, c := range p.ids[at+1 : at+p.context+1] {
		to.Y[k] = int32(c)
	}
	return nil
}
