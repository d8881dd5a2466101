package text_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data/text"
)

// one is the document of a text.
func one(of string) text.Documents {
	return func(each func(text.Document) error) error {
		return each(text.Document{Name: "t.txt", Text: []byte(of)})
	}
}

func vocabulary(t testing.TB, spec, of string) sgd.Vocabulary {
	t.Helper()
	k, err := text.Kinds.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	v, err := k.Vocabulary(one(of), func(path string) (string, error) { return path, nil })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// encoded are texts of testdata, with the pretokens and tokens that Hugging Face's tokenizers
// 0.23.3 makes of them; pretokens are those of Python's module regex too.
func encoded(t *testing.T) (all []struct {
	Text      string
	Pretokens []string
	IDs       []int32
}) {
	t.Helper()
	b, err := os.ReadFile("testdata/encoded.json")
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil || len(all) < 300 {
		t.Fatalf("%d texts, %v", len(all), err)
	}
	return all
}

// Byte pairs are those of the library that others use, from either form of its files, and
// decode to the bytes that they were.
func TestBPE(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"vocab.json", "merges.txt"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"testdata/tokenizer.json", dir} {
		v := vocabulary(t, "bpe(path="+path+")", "")
		if v.Len() != 420 {
			t.Errorf("%s: %d tokens", path, v.Len())
		}
		for _, c := range encoded(t) {
			ids, err := v.Encode(nil, []byte(c.Text))
			if err != nil || !slices.Equal(ids, c.IDs) {
				t.Errorf("%s: %q is %v, want %v (%v)", path, c.Text, ids, c.IDs, err)
			}
			var back []byte
			for _, id := range ids {
				back = v.Decode(back, id)
			}
			if string(back) != c.Text {
				t.Errorf("%q comes back as %q", c.Text, back)
			}
		}
	}
}

// A long word is joined in parts, and takes no time that grows with the square of its length.
func TestLongWords(t *testing.T) {
	t.Parallel()
	v := vocabulary(t, "bpe(path=testdata)", "")
	for _, c := range []string{"a", " ", "th", "é"} {
		in := bytes.Repeat([]byte(c), 1<<20)
		ids, err := v.Encode(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		var back []byte
		for _, id := range ids {
			back = v.Decode(back, id)
		}
		if !bytes.Equal(back, in) {
			t.Errorf("%d times %q come back as %d bytes", 1<<20, c, len(back))
		}
	}
}

// What is no byte-level BPE with GPT-2's pretokens is refused, and the error says what it is.
func TestForeignTokenizers(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	change := func(path string, to any) []byte {
		var all map[string]any
		if err := json.Unmarshal(own, &all); err != nil {
			t.Fatal(err)
		}
		at, keys := all, strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			at = at[k].(map[string]any)
		}
		at[keys[len(keys)-1]] = to
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for want, file := range map[string][]byte{
		`its model is of type "Unigram"`:          change("model.type", "Unigram"),
		`its model is of type "WordPiece"`:        change("model.type", "WordPiece"),
		"BPE on characters":                       change("model.byte_fallback", true),
		`normalizer "NFC"`:                        change("normalizer", map[string]any{"type": "NFC"}),
		"pre_tokenizer null":                      change("pre_tokenizer", nil),
		`cuts texts by "Whitespace"`:              change("pre_tokenizer", map[string]any{"type": "Whitespace"}),
		"add_prefix_space":                        change("pre_tokenizer.add_prefix_space", true),
		`another pattern, "\\d"`:                  change("pre_tokenizer", map[string]any{"type": "Split", "pattern": map[string]any{"Regex": `\d`}}),
		"into pretokens 0 times":                  change("pre_tokenizer.use_regex", false),
		"merge 0 has 1 parts":                     change("model.merges", []any{"ab"}),
		`merge 0, "a" with "qqq"`:                 change("model.merges", []any{"a qqq"}),
		"no token of byte":                        change("model.vocab", map[string]any{"a": 0}),
		"has number -1":                           change("model.vocab", map[string]any{"a": -1}),
		"two tokens have number 0":                change("model.vocab", map[string]any{"a": 0, "b": 0}),
		"no vocabulary of a model":                []byte("{}"),
		"unexpected end of JSON":                  own[:100],
		`there are neither vocab.json and merges`: nil,
	} {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		if file == nil {
			path = filepath.Dir(path)
		} else if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := text.BPE{Path: path}.Vocabulary(nil, func(path string) (string, error) { return path, nil })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := (text.BPE{}).Vocabulary(nil, nil); err == nil || !strings.Contains(err.Error(), "path=…") {
		t.Error(err)
	}
}

// Several documents have a token of the end between them, and behind the last.
func TestDocuments(t *testing.T) {
	t.Parallel()
	v := vocabulary(t, "bpe(path=testdata)", "")
	docs := func(texts ...string) text.Documents {
		return func(each func(text.Document) error) error {
			for _, s := range texts {
				if err := each(text.Document{Text: []byte(s)}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		texts []string
		ends  int
	}{{[]string{"ab"}, 0}, {[]string{"ab", "c"}, 2}, {[]string{"ab", "", "c"}, 3}} {
		all, err := text.Tokenise(docs(c.texts...), v)
		if err != nil {
			t.Fatal(err)
		}
		ends, said := 0, ""
		for i := range all.Len() {
			b := v.Decode(nil, all.At(i))
			if said += string(b); len(b) == 0 {
				ends++
			}
		}
		if ends != c.ends || said != strings.Join(c.texts, "") {
			t.Errorf("%q: %d ends, %q", c.texts, ends, said)
		}
	}
}

// bin is a file of tokens, with words of a header in front.
func bin(t *testing.T, header []uint32, tokens ...uint16) string {
	t.Helper()
	var b []byte
	if header != nil {
		b = make([]byte, 1024)
		for i, w := range header {
			binary.LittleEndian.PutUint32(b[4*i:], w)
		}
	}
	for _, token := range tokens {
		b = binary.LittleEndian.AppendUint16(b, token)
	}
	path := filepath.Join(t.TempDir(), "t.bin")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Files of tokens are read with and without a header, and what does not fit is an error.
func TestFilesOfTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header []uint32
		want   []int32
	}{{nil, []int32{1, 2, 65535, 4}}, {[]uint32{20240520, 1, 4}, []int32{1, 2, 65535, 4}}, {[]uint32{20240801, 7, 2}, []int32{1 + 2<<16, 65535 + 4<<16}}} {
		all, err := text.OpenTokens(bin(t, c.header, 1, 2, 65535, 4))
		if err != nil {
			t.Fatal(err)
		}
		var got []int32
		for i := range all.Len() {
			got = append(got, all.At(i))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("header %v: %v, want %v", c.header, got, c.want)
		}
	}
	if _, err := text.OpenTokens(bin(t, []uint32{20240520, 1, 5}, 1, 2)); err == nil || !strings.Contains(err.Error(), "header says 5 tokens of version 1, 10 bytes; it has 4") {
		t.Error(err)
	}
	path := bin(t, nil, 1)
	if err := os.WriteFile(path, []byte("odd"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := text.OpenTokens(path); err == nil || !strings.Contains(err.Error(), "no whole number of tokens") {
		t.Error(err)
	}
}

// Windows reach from no stretch into another, and name tokens that the vocabulary has not.
func TestWindows(t *testing.T) {
	t.Parallel()
	a, err := text.OpenTokens(bin(t, nil, 0, 1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	path := bin(t, nil, 4, 5)
	short, _ := text.OpenTokens(path)
	b, _ := text.OpenTokens(bin(t, nil, 6, 7, 8))
	w := text.NewWindows([]text.Tokens{a, short, b}, 1, 2, 9, 0)
	var got [][]int32
	for i := range w.Len() {
		tokens, labels := make([]int32, 2), make([]int32, 2)
		if err := w.Read(i, tokens, labels); err != nil {
			t.Fatal(err)
		}
		got = append(got, append(tokens, labels...))
	}
	if want := [][]int32{{0, 1, 1, 2}, {1, 2, 2, 3}, {6, 7, 7, 8}}; !slices.EqualFunc(got, want, slices.Equal) || w.Tokens() != 9 {
		t.Errorf("%v of %d tokens, want %v", got, w.Tokens(), want)
	}
	head, tail := text.Split([]text.Tokens{a, short, b}, 0.5) // 4 and 5
	if len(head) != 1 || head[0].Len() != 4 || len(tail) != 2 || tail[1].At(2) != 8 {
		t.Errorf("%v and %v", head, tail)
	}
	bad := text.NewWindows([]text.Tokens{short}, 1, 1, 5, 0)
	if err := bad.Read(0, make([]int32, 1), make([]int32, 1)); err == nil || err.Error() != path+": token 1 of the file is 5; the vocabulary has 5" {
		t.Error(err)
	}
	if w.Hash(1) == w.Hash(2) || w.Hash(1) == bad.Hash(1) || text.Hash(vocabulary(t, "chars", "ab")) == text.Hash(vocabulary(t, "chars", "ac")) {
		t.Error("what differs has the same hash")
	}
}

// Files are divided by their names, and those of one kind are read.
func TestList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files       string
		kind        text.Kind
		train, test string
		err         string
	}{
		{"b.txt a.txt .hidden.txt readme.md", text.Chars{}, "a.txt b.txt", "", ""},
		{"train.txt val.txt", text.Bytes{}, "train.txt", "val.txt", ""},
		{"data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet data/test-0.parquet data/validation-0.parquet", text.BPE{}, "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet", "data/validation-0.parquet", ""},
		{"fineweb_train_000001.bin fineweb_val_000000.bin", text.BPE{}, "fineweb_train_000001.bin", "fineweb_val_000000.bin", ""},
		{"input.txt train.bin val.bin", text.IDs{}, "train.bin", "val.bin", ""},
		{"input.txt train.bin val.bin", text.Chars{}, "input.txt", "", ""},
		{"latest.txt evaluate.txt", text.Chars{}, "evaluate.txt latest.txt", "", ""},
		{"a.txt b.parquet", text.Chars{}, "", "", "both .txt, such as"},
		{"a.md", text.Chars{}, "", "", "there are no files .txt, .parquet or .bin"},
		{"test/a.txt", text.Chars{}, "", "", "none is left to train on"},
		{"train.bin", text.Chars{}, "", "", "say of which vocabulary"},
		{"train.txt", text.IDs{}, "", "", "has a text; want tokens=chars"},
	} {
		dir := t.TempDir()
		for name := range strings.FieldsSeq(c.files) {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := text.List(dir, c.kind)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v; want %q", c.files, err, c.err)
			}
			continue
		}
		rel := func(list []string) string {
			return strings.ReplaceAll(strings.Join(list, " "), dir+string(filepath.Separator), "")
		}
		if err != nil || rel(f.Train) != c.train || rel(f.Test) != c.test {
			t.Errorf("%s: %q and %q (%v)", c.files, rel(f.Train), rel(f.Test), err)
		}
	}
}

// Characters of a prompt that are no tokens are named, and numbers have no texts.
func TestPrompts(t *testing.T) {
	t.Parallel()
	if _, err := vocabulary(t, "chars", "abc").Encode(nil, []byte("abd")); err == nil || err.Error() != `character 'd' is not in the vocabulary of 3; it has "abc"` {
		t.Error(err)
	}
	if _, err := vocabulary(t, "ids(size=9)", "").Encode(nil, nil); err == nil || !strings.Contains(err.Error(), "tokens=bpe(path=…)") {
		t.Error(err)
	}
	if _, err := text.Kinds.Parse("ids(size=1)"); err == nil || !strings.Contains(err.Error(), "want 2 to") {
		t.Error(err)
	}
}

// No bytes make a tokeniser panic, and what it takes comes back as it was.
func FuzzText(f *testing.F) {
	f.Add([]byte("to be or not to be, that is the question"))
	f.Add([]byte("\xef\xbb\xbfab\xc3\xa9\xff"))
	f.Add([]byte("  a \xc2\xa0\xe2\x80 'll"))
	pairs := vocabulary(f, "bpe(path=testdata)", "")
	f.Fuzz(func(t *testing.T, b []byte) {
		docs := one(string(b))
		of := []sgd.Vocabulary{pairs, vocabulary(t, "bytes", "")}
		if v, err := (text.Chars{}).Vocabulary(docs, nil); err == nil {
			of = append(of, v)
		}
		for i, v := range of {
			all, err := text.Tokenise(docs, v)
			if err != nil {
				t.Fatal(err)
			}
			var back []byte
			for i := range all.Len() {
				back = v.Decode(back, all.At(i))
			}
			want := b
			if i == 2 {
				want = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
			}
			if !bytes.Equal(back, want) {
				t.Fatalf("%q comes back as %q", want, back)
			}
			w := text.NewWindows([]text.Tokens{all}, 1, 3, v.Len(), 0)
			tokens, labels := make([]int32, 3), make([]int32, 3)
			for i := range w.Len() {
				if err := w.Read(i, tokens, labels); err != nil || !slices.Equal(tokens[1:], labels[:2]) {
					t.Fatalf("window %d: %v, %v (%v)", i, tokens, labels, err)
				}
			}
		}
	})
}
