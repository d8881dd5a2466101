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

// Text is a text of one's own, to be learned character by character: a sample is
// Window characters, the label the one after them. Classes are the characters that
// occur, in the order of their code points. Inputs are one-hot, 1×1×(Window·classes):
// character after character, 1 at its class and 0 elsewhere. The last Test of the
// text is the test set; no window reaches from one part into the other.
//
// Every model on vectors takes it, such as mlp; with one hidden layer that is the
// network of Bengio et al. 2003 on characters, without shared embeddings. Accuracy
// is the share of characters that were guessed, loss is in nats a character.
type Text struct {
	Path   string  `doc:"the file, in UTF-8; below --data-dir, or as it is"`
	Window int     `doc:"characters that are seen before the one to guess"`
	Test   float64 `doc:"share of the text, its end, that is the test set"`
}

var _ = Sets.Add("text", "your own text: the next character after a window of them", Text{Window: 16, Test: 0.1})

// mostCharacters bounds the classes of a text, and with them the inputs.
const mostCharacters = 1024

// Validate checks the options.
func (s Text) Validate() error {
	if s.Window < 1 || s.Window > 256 {
		return fmt.Errorf("option \"window\": want 1 to 256 characters, not %d", s.Window)
	}
	return checkOwn(s.Test, "none")
}

func (Text) own() {}

// Open reads the text into memory, two bytes a character. There is nothing to
// augment. Errors name file and line.
func (s Text) Open(o Options) (sgd.Dataset, error) {
	ds, err := s.open(o)
	if err != nil {
		return ds, fmt.Errorf("data: text: %s", strings.TrimPrefix(err.Error(), "data: text: "))
	}
	return ds, nil
}

func (s Text) open(o Options) (ds sgd.Dataset, err error) {
	if err := s.Validate(); err != nil {
		return ds, err
	}
	path, err := ownPath("text", s.Path, o)
	if err != nil {
		return ds, err
	}
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return ds, err
	}
	ids, classes, err := characters(b)
	if err != nil {
		return ds, fmt.Errorf("%s%w", path, err)
	}
	cut := len(ids) - int(s.Test*float64(len(ids)))
	train, test := &passage{ids[:cut], s.Window, classes}, &passage{ids[cut:], s.Window, classes}
	for p, part := range []*passage{train, test} {
		if part.len() < 1 {
			return ds, fmt.Errorf("%s: %d characters in the %s part, want more than the %d of a window", path, len(part.ids), [2]string{"training", "test"}[p], s.Window)
		}
	}
	ds = dataset(train, test, o, false)
	where := fmt.Sprintf("%d %d", s.Window, cut)
	head, body := crc32.New(castagnoli), crc32.NewIEEE()
	head.Write(append([]byte(where), b...))
	body.Write(b)
	ds.Hash = uint64(head.Sum32())<<32 | uint64(body.Sum32())
	return ds, nil
}

// characters numbers the characters of a text. Errors begin with a colon and the
// line.
func characters(b []byte) (ids []uint16, classes int, err error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	class := map[rune]uint16{}
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return nil, 0, fmt.Errorf(":%d: byte %#x is no UTF-8; convert the file, for example with iconv -t utf-8", 1+bytes.Count(b[:at], []byte("\n")), b[at])
		}
		if class[r] = 0; len(class) > mostCharacters {
			return nil, 0, fmt.Errorf(":%d: more than %d different characters; each is a class and an input", 1+bytes.Count(b[:at], []byte("\n")), mostCharacters)
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

// passage is a stretch of a text; sample i is the window that begins at i.
type passage struct {
	ids          []uint16
	window, many int
}

func (p *passage) len() int         { return len(p.ids) - p.window }
func (p *passage) shape() sgd.Shape { return sgd.Shape{C: 1, H: 1, W: p.window * p.many} }
func (p *passage) classes() int     { return p.many }

func (p *passage) read(i int, _ jitter, x []float32) (int32, error) {
	clear(x)
	for k, c := range p.ids[i : i+p.window] {
		x[k*p.many+int(c)] = 1
	}
	return int32(p.ids[i+p.window]), nil
}
