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
	want := sgd.Sample{Shape: sgd.Shape{C: 1, H: 2, W: 1}, Vocabulary: 6, Classes: 6, Targets: 2}
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

// No bytes make the reader panic, and what it takes it can serve.
func FuzzText(f *testing.F) {
	f.Add([]byte("to be or not to be, that is the question"))
	f.Add([]byte("\xef\xbb\xbfab\xc3\xa9\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, classes, err := characters(b)
		if err != nil {
			return
		}
		for _, stride := range []int{1, 3} {
			p := &passage{ids, stride, 3, classes}
			to := Item{Tokens: make([]int32, 3), Y: make([]int32, 3)}
			for i := range p.len() {
				if err := p.read(i, jitter{}, to); err != nil || slices.Min(to.Y) < 0 || int(slices.Max(to.Y)) >= classes || !slices.Equal(to.Tokens[1:], to.Y[:2]) {
					t.Fatalf("sample %d: %v, %v", i, to, err)
				}
			}
		}
	})
}
