package data

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// A sample is a window of tokens, and after each of them the next. In the training part a
// window begins at every token; the end of the text is the test set, in windows side by side.
func TestText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store(t, filepath.Join(dir, "t.txt"), []byte("abcabcabcabdéade")) // 16 characters, classes a b c d e é
	ds := open(t, "text(path=t.txt,context=2,test=0.375)", Options{Dir: dir})
	want := sgd.Sample{Shape: sgd.Shape{C: 1, H: 2, W: 1}, Vocabulary: 6, Classes: 6, Targets: 2, Bytes: 7. / 6}
	if got := ds.Train.Sample(); got != want || ds.Test.Sample() != want || ds.Train.Len() != 8 || ds.Test.Len() != 2 {
		t.Fatalf("%v, %d + %d samples", got, ds.Train.Len(), ds.Test.Len())
	}
	b := batch(t, ds.Test, 0, 2) // of "bdéade": bd and éa, before dé and ad
	if !slices.Equal(b.Tokens, []int32{1, 3, 5, 0}) || !slices.Equal(b.Y, []int32{3, 5, 0, 3}) || len(b.X) != 0 {
		t.Errorf("tokens %v, labels %v", b.Tokens, b.Y)
	}
	b = batch(t, ds.Train, 0, 8) // of "abcabcabca", where the next character follows from the last
	for i, c := range b.Tokens {
		if b.Y[i] != (c+1)%3 {
			t.Errorf("after %d comes %d", c, b.Y[i])
		}
	}
	octet := open(t, "text(path=t.txt,tokens=bytes,context=3,test=0.375)", Options{Dir: dir})
	if b := batch(t, octet.Test, 0, 1); octet.Train.Sample().Classes != 256 || b.Tokens[0] != 'b' || b.Y[1] != 0xc3 {
		t.Errorf("bytes: %v, labels %v", b.Tokens, b.Y)
	}
	// What is held out is the end of the training part: no window reaches into it.
	held := open(t, "text(path=t.txt,context=2,test=0.375)", Options{Dir: dir, Validation: 0.4})
	if b := batch(t, held.Test, 0, 1); held.Train.Len() != 4 || held.Test.Len() != 1 || !slices.Equal(b.Tokens, []int32{0, 1}) {
		t.Errorf("held out: %d + %d samples, %v", held.Train.Len(), held.Test.Len(), b.Tokens)
	}
	store(t, filepath.Join(dir, "u.txt"), []byte("abcabcabcabdéadb"))
	for what, spec := range map[string]string{"text": "text(path=u.txt,context=2,test=0.375)", "context": "text(path=t.txt,context=3,test=0.375)", "tokens": "text(path=t.txt,tokens=bytes,context=2,test=0.375)"} {
		if other := open(t, spec, Options{Dir: dir}); other.Hash == ds.Hash {
			t.Errorf("another %s has the same hash", what)
		}
	}
}

func TestTextErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	many := make([]rune, 2000)
	for i := range many {
		many[i] = rune(0x4e00 + i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no UTF-8":      {"ab\ncd\xff", "t.txt:2: byte 0xff is no UTF-8"},
		"empty":         {"", "t.txt: 0 different characters"},
		"one character": {"aaaaaaaaaaaaaaaaaaaaaaaa", "t.txt: 1 different characters"},
		"too short":     {strings.Repeat("ab", 50), "10 tokens in the test part, want more than the 64 of a sample"},
		"too many":      {string(many), "t.txt:1: more than 1024 different characters"},
	} {
		store(t, filepath.Join(dir, "t.txt"), []byte(c.text))
		if _, err := Open("text(path=t.txt)", Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	_, err := Open("text", Options{})
	refused(t, err, []string{"data=text(path=…)"})
	if _, err := Open("text(path=t.txt,context=0)", Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "context") {
		t.Errorf("%v", err)
	}
}

// A folder is one set: rows of Parquet files, by the column that has texts, or files of tokens,
// divided by their names.
func TestTextFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, rows ...string) {
		type row struct {
			Text  string `parquet:"text"`
			Story string `parquet:"story"`
			Label int    `parquet:"label"`
		}
		var all []row
		for i, r := range rows {
			all = append(all, row{r, "q" + r, i})
		}
		store(t, filepath.Join(dir, name), parquetBytes(t, all, 2))
	}
	put("hub/data/train-00000-of-00002.parquet", "abc", "cab")
	put("hub/data/train-00001-of-00002.parquet", "bca")
	put("hub/data/validation-00000-of-00001.parquet", "ccc", "aaa")
	put("hub/data/test-00000-of-00001.parquet", "x")
	ds := open(t, "text(path=hub,context=2)", Options{Dir: dir})
	b := batch(t, ds.Test, 0, 2) // of "cccaaa"; of the training part "abccabbca"
	if ds.Train.Len() != 7 || !slices.Equal(b.Tokens, []int32{2, 2, 2, 0}) || !strings.Contains(ds.Note, "left out: 1 files of a test set") {
		t.Errorf("%d samples, %v, %q", ds.Train.Len(), b.Tokens, ds.Note)
	}
	if ds := open(t, "text(path=hub,context=2,column=story)", Options{Dir: dir}); ds.Train.Sample().Vocabulary != 4 {
		t.Errorf("%v", ds.Train.Sample())
	}
	for name, tokens := range map[string]string{"train.bin": "\x01\x00\x02\x00\x03\x00", "val.bin": "\x04\x00\x05\x00\x06\x00\x07\x00"} {
		store(t, filepath.Join(dir, "bins", name), []byte(tokens))
	}
	ds = open(t, "text(path=bins,tokens=ids(size=8),context=1)", Options{Dir: dir})
	if b := batch(t, ds.Test, 0, 3); ds.Train.Len() != 2 || !slices.Equal(b.Tokens, []int32{4, 5, 6}) || !slices.Equal(b.Y, []int32{5, 6, 7}) {
		t.Errorf("%d samples, %v before %v", ds.Train.Len(), b.Tokens, b.Y)
	}
	if ds = open(t, "text(path=bins,tokens=bpe(path=text/testdata),context=1)", Options{Dir: dir}); ds.Train.Sample().Classes != 420 {
		t.Errorf("%v", ds.Train.Sample())
	}
	for spec, want := range map[string]string{
		"text(path=hub,column=label,context=2)":        `no column "label" of texts; it has "text" (text), "story" (text), "label" (int64); say which: column=…`,
		"text(path=bins,context=2)":                    "say of which vocabulary they are",
		"text(path=bins,tokens=ids(size=6),context=1)": "",
	} {
		ds, err := Open(spec, Options{Dir: dir})
		if want == "" && err == nil {
			want = "token 2 of the file is 6; the vocabulary has 6"
			var b sgd.Batch
			err = ds.Test.Batch(sgd.Draw{N: 3}, &b)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", spec, err, want)
		}
	}
}
