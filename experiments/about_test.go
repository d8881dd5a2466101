package experiments

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestParseTags(t *testing.T) {
	t.Parallel()
	if got, err := ParseTags(" b,a , b"); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "a,", "a b", "a=b", "a~", "'a'"} {
		if got, err := ParseTags(bad); err == nil || !strings.Contains(err.Error(), "words apart by commas") {
			t.Errorf("%q gives %q, %v", bad, got, err)
		}
	}
}

// What is said of a run lies in its folder, is added to by a later leg, and does
// not change what the run is.
func TestAbout(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	run := mustRuns(t, "steps: 2\nmodel: logistic\ntest_limit: 50\n")[0]
	opt := Options{Recipe: "r", Out: out, About: About{Name: "first", Tags: []string{"b"}, Note: "why"}}
	res, err := Execute(context.Background(), run, opt)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := ReadAbout(res.Folder); err != nil || a.line() != "name: first; tags: b; note: why" {
		t.Errorf("%+v, %v", a, err)
	}
	opt.Resume, opt.About = true, About{Tags: []string{"a", "b"}, Note: "because"}
	again, err := Execute(context.Background(), run, opt)
	if err != nil || again.Folder != res.Folder {
		t.Fatalf("%v, %v", again, err)
	}
	a, err := ReadAbout(res.Folder)
	if err != nil || a.line() != "name: first; tags: a, b; note: because" {
		t.Errorf("%+v, %v", a, err)
	}
	rec, err := ReadRecord(res.Folder)
	var b strings.Builder
	if err == nil {
		err = rec.Write(&b)
	}
	if err != nil || !strings.Contains(b.String(), a.line()) {
		t.Errorf("%v: not shown in\n%s", err, b.String())
	}
	if err := WriteAbout(res.Folder, About{Name: "two\nlines"}); err == nil {
		t.Error("a name of two lines is taken")
	}
}
