package config

import (
	"errors"
	"io/fs"
	"testing"
)

// Runs that are refused for one reason share a line, in the order of the reasons.
func TestRunsRefusedForOneReason(t *testing.T) {
	var r refused
	if r.add("a", nil); r.err() != nil {
		t.Errorf("nothing was refused, and %v", r.err())
	}
	for _, run := range []string{"a", "b", "c", "d", "e"} {
		r.add(run, errors.New("no such file"))
		if run == "b" || run == "d" {
			r.add(run, errors.New("too large"))
		}
	}
	r.add("c", fs.ErrExist)
	r.add("", errors.New("of the only one"))
	want := `runs "a", "b" and 3 more: no such file
runs "b" and "d": too large
run "c": file already exists
of the only one`
	if err := r.err(); err.Error() != want || !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
}
