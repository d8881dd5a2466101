package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever lies under a name, reading it ends at once.
func TestReading(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		most int64
		want string // of the error; "": none
	}{
		{at("file"), 5, ""}, {at("file"), 4, "longer than the 4 bytes"}, {at("pipe"), 5, "no regular file"}, {at("link"), 5, "no regular file"},
		{"/dev/zero", 5, "no regular file"}, {dir, 5, "no regular file"}, {at("none"), 5, "no such file"},
	} {
		b, err := ReadFile(c.path, c.most)
		if c.want == "" && (err != nil || string(b) != "12345") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("ReadFile(%s, %d): %q, %v; want %q", c.path, c.most, b, err, c.want)
		}
	}
	for path, want := range map[string]string{at("file"): "", "/dev/zero": "longer than the 5 bytes", at("none"): "no such file"} {
		if b, err := ReadText(path, 5); want == "" && (err != nil || string(b) != "12345") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("ReadText(%s): %q, %v; want %q", path, b, err, want)
		}
	}
}
