package data

import (
	"fmt"
	"os"
	"strings"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data/text"
)

// Text is a text of one's own, for models that guess the next token. A sample is a window
// of Context tokens; its labels are the tokens that follow each of them.
//
// It is a file, or the files of a folder in the order of their names, all of one kind: texts;
// Parquet with a column of texts; or tokens (.bin), as nanoGPT, llm.c and modded-nanogpt write
// them, which stay on disk. Several texts, or rows, have the token of an end between them where
// the vocabulary has one.
//
// Files named after val, valid, validation or dev, or else after test, are the test set. Where
// there are none the last Test of the text is. It is cut into windows side by side, so each of
// its tokens but the first is guessed once. In the training part a window begins at every token,
// and an epoch shows all of them: each token Context times. With Options.Validation the end of
// the training part is held out, in place of the test set. No window reaches from one part into
// another, nor from one file of tokens into another.
type Text struct {
	Path    string         `doc:"the file, or a folder; below --data-dir, or as it is"`
	Tokens  text.Tokeniser `doc:"what a token is: chars (of UTF-8, at most 1,024 different ones), bytes, bpe(path=…), or ids(size=…) of files of tokens"`
	Context int            `doc:"tokens of a sample"`
	Test    float64        `doc:"share of the text, its end, that is the test set"`
	Column  string         `doc:"column of Parquet files that has the text"`
}

var characters = text.Tokeniser{Kind: text.Chars{}}

var _ = Sets.Add("text", "your own text: after each token of a window, the next", Text{Tokens: characters, Context: 64, Test: 0.1, Column: "text"})

// Shakespeare is the 1,115,394 characters of plays of Shakespeare that char-rnn was shown
// with (Karpathy 2015): a Text of 65 different ones, the last tenth of which is the test set.
type Shakespeare struct {
	Tokens  text.Tokeniser `doc:"what a token is: chars, bytes or bpe(path=…)"`
	Context int            `doc:"tokens of a sample"`
}

var _ = Sets.Add("shakespeare", "plays of Shakespeare: after each character of a window, the next", Shakespeare{Tokens: characters, Context: 64})

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
	return s.text().read("shakespeare", loc.Files[0].Path, o)
}

const mostContext = 65536 // tokens of a sample

// Validate checks the options.
func (s Text) Validate() error {
	if s.Context < 1 || s.Context > mostContext {
		return fmt.Errorf("option \"context\": want 1 to %d tokens, not %d", mostContext, s.Context)
	}
	return checkOwn(s.Test, "none")
}

func (Text) own() {}

// Open reads texts into memory, two bytes a token, or four of vocabularies of more than 65,536;
// files of tokens are mapped. There is nothing to augment. Errors name file and line.
func (s Text) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: text: %w", err)
	}
	path, err := ownPath("text", s.Path, o)
	if err != nil {
		return sgd.Dataset{}, err
	}
	return s.read("text", path, o)
}

// read makes a set of what is at a path.
func (s Text) read(set, path string, o Options) (ds sgd.Dataset, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("data: %s: %s", set, strings.TrimPrefix(err.Error(), "data: "+set+": "))
		}
	}()
	files, err := text.List(path, s.Tokens.Kind)
	if err != nil {
		return ds, err
	}
	of, err := s.Tokens.Vocabulary(s.documents(append(files.Train[:len(files.Train):len(files.Train)], files.Test...)),
		func(path string) (string, error) { return ownPath(set, path, o) })
	if err != nil {
		return ds, err
	}
	if of.Len() < 2 {
		return ds, fmt.Errorf("%s: %d different characters; want at least 2, to guess one", path, of.Len())
	}
	stretches := [2][]text.Tokens{}
	for p, list := range [][]string{files.Train, files.Test} {
		if stretches[p], err = s.stretches(files.Ending, list, of); err != nil {
			return ds, err
		}
	}
	if len(files.Test) == 0 {
		stretches[0], stretches[1] = text.Split(stretches[0], s.Test)
	}
	if o.Validation > 0 {
		stretches[0], stretches[1] = text.Split(stretches[0], o.Validation)
		o.Validation = 0
	}
	bytes := text.MeanBytes(stretches[1], of)
	train, test := text.NewWindows(stretches[0], 1, s.Context, of.Len(), bytes), text.NewWindows(stretches[1], s.Context, s.Context, of.Len(), bytes)
	for p, part := range []*text.Windows{train, test} {
		if part.Len() < 1 {
			return ds, fmt.Errorf("%s: %d tokens in the %s part, want more than the %d of a sample", path, part.Tokens(), [2]string{"training", "test"}[p], s.Context)
		}
	}
	ds = dataset(windows{train}, windows{test}, o, false)
	ds.Vocabulary, ds.Note = of, files.Note
	ds.Hash = test.Hash(train.Hash(text.Hash(of)))
	return ds, nil
}

// stretches are the tokens of files of an ending.
func (s Text) stretches(ending string, list []string, of sgd.Vocabulary) ([]text.Tokens, error) {
	if ending != text.Binary {
		all, err := text.Tokenise(s.documents(list), of)
		return []text.Tokens{all}, err
	}
	var out []text.Tokens
	for _, path := range list {
		t, err := text.OpenTokens(path)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// documents are the texts of files: whole, or the rows of Parquet.
func (s Text) documents(list []string) text.Documents {
	return func(each func(text.Document) error) error {
		for _, path := range list {
			if strings.EqualFold(path[max(0, len(path)-len(text.Parquet)):], text.Parquet) {
				if err := s.rows(path, each); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				continue
			}
			b, err := regular.ReadFile(path, regular.Any)
			if err == nil {
				err = each(text.Document{Name: path, Text: b})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// rows are the texts of a Parquet file.
func (s Text) rows(path string, each func(text.Document) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	pf, err := openParquet(f, st.Size())
	if err != nil {
		return err
	}
	for i := range pf.columns {
		c := &pf.columns[i]
		if strings.Join(c.path, ".") != s.Column || c.kind != byteArrays || c.list {
			continue
		}
		row := 0
		return pf.groups([]int{i}, func(chunks []chunk) error {
			return pf.each(chunks[0], func(int64) error { return nil }, func(c cell) error {
				row++
				return each(text.Document{Name: fmt.Sprintf("row %d", row), Text: c.bytes}) // of none: no text
			})
		})
	}
	return fmt.Errorf("no column %q of texts; it has %s; say which: column=…", s.Column, pf.describe())
}

// windows are windows of tokens as a store.
type windows struct{ *text.Windows }

func (w windows) len() int                            { return w.Len() }
func (w windows) form() sgd.Sample                    { return w.Sample() }
func (w windows) read(i int, _ jitter, to Item) error { return w.Read(i, to.Tokens, to.Y) }
