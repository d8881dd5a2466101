package data

import (
	"path/filepath"
	"strings"
	"testing"
)

// A sample is a window of characters, one-hot, and the character after it; the end
// of the text is the test set.
func TestText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store(t, filepath.Join(dir, "t.txt"), []byte("abcabcabcabdéa")) // 14 characters, classes a b c d é
	ds := open(t, "text(path=t.txt,window=2,test=0.3)", Options{Dir: dir})
	if ds.Train.Classes() != 5 || ds.Train.Shape().Len() != 10 || ds.Train.Len() != 8 || ds.Test.Len() != 2 {
		t.Fatalf("%d classes, %s, %d + %d samples", ds.Train.Classes(), ds.Train.Shape(), ds.Train.Len(), ds.Test.Len())
	}
	b := batch(t, ds.Test, 0, 2) // of "bdéa": bd and dé
	want := [][]float32{{0, 1, 0, 0, 0, 0, 0, 0, 1, 0}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 1}}
	for i, y := range []int32{4, 0} {
		if b.Y[i] != y {
			t.Errorf("sample %d: label %d, want %d", i, b.Y[i], y)
		}
		for k, v := range want[i] {
			if b.X[10*i+k] != v {
				t.Errorf("sample %d: input %d is %v, want %v", i, k, b.X[10*i+k], v)
			}
		}
	}
	// In "abcabcabca" whatever comes after ab is c, after bc a, after ca b.
	b = batch(t, ds.Train, 0, 8)
	for i := range 8 {
		x := b.X[10*i:]
		for c := range 3 {
			if x[c] == 1 && b.Y[i] != int32(c+2)%3 {
				t.Errorf("after a window that begins with %d comes %d", c, b.Y[i])
			}
		}
	}
	store(t, filepath.Join(dir, "u.txt"), []byte("abcabcabcabdéb"))
	if other := open(t, "text(path=u.txt,window=2,test=0.3)", Options{Dir: dir}); other.Hash == ds.Hash {
		t.Error("another text has the same hash")
	}
	if other := open(t, "text(path=t.txt,window=3,test=0.3)", Options{Dir: dir}); other.Hash == ds.Hash {
		t.Error("another window has the same hash")
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
		"too short":     {strings.Repeat("ab", 50), "10 characters in the test part, want more than the 16 of a window"},
		"too many":      {string(many), "t.txt:1: more than 1024 different characters"},
	} {
		store(t, filepath.Join(dir, "t.txt"), []byte(c.text))
		if _, err := Open("text(path=t.txt)", Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	_, err := Open("text", Options{})
	refused(t, err, []string{"data=text(path=…)"})
	if _, err := Open("text(path=t.txt,window=0)", Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "window") {
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
		p := &passage{ids, 3, classes}
		x := make([]float32, p.shape().Len())
		for i := range max(0, p.len()) {
			if y, err := p.read(i, jitter{}, x); err != nil || y < 0 || int(y) >= classes {
				t.Fatalf("sample %d: %d, %v", i, y, err)
			}
		}
	})
}
