package data

import (
	"path/filepath"
	"syscall"
	"testing"
)

// What is no regular file is refused by name and not waited for, wherever data is read.
func TestNoRegularFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := func(path string) {
		if err := syscall.Mkfifo(filepath.Join(dir, path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store(t, filepath.Join(dir, "arrays", "y.npy"), nil)
	pipe("pipe")
	pipe("arrays/X.npy")
	for _, spec := range []string{"csv(path=/dev/zero,label=1)", "csv(path=pipe,label=1)", "csv(path=.,label=1)", "text(path=/dev/zero)", "text(path=pipe)", "npy(path=arrays)",
		"pictures(path=pipe)", "pictures(path=/dev/zero)"} {
		_, err := Open(spec, Options{Dir: dir})
		refused(t, err, []string{"no regular file"})
	}
	pipe("mnist")
	pipe("ILSVRC2012_img_train.tar")
	for _, spec := range []string{"mnist", "imagenet"} { // looked for in a folder with pipes
		if _, err := Open(spec, Options{Dir: dir}); err == nil {
			t.Errorf("%s was read", spec)
		}
	}
}
