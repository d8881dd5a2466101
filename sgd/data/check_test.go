package data

import (
	"errors"
	"fmt"
	"image/color"
	"strings"
	"testing"
)

// found is the finding of that name.
func found(t *testing.T, r Report, what string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.What == what {
			return f
		}
	}
	t.Errorf("nothing is said of %s: %+v", what, r.Findings)
	return Finding{}
}

// A copy with one of each oddity: all are counted and named, and only those that
// spoil a run are problems.
func TestCheckNamesWhatIsOdd(t *testing.T) {
	t.Parallel()
	picture := func(i int) []byte { return jpegBytes(uniform(20+i, 20, color.RGBA{uint8(20 * i), 50, 90, 255}), 90) }
	files := []entry{
		{"train/n02105855/n02105855_2933.JPEG", pngBytes(uniform(9, 9, grey))},
		{"train/n02105855/n02105855_1.JPEG", pngBytes(uniform(8, 9, grey))},
		{"train/n01739381/n01739381_1309.JPEG", cmykJPEG()},
		{"train/n01739381/n01739381_2.JPEG", greyJPEG(9, 9, 3)},
		{"train/n01739381/n01739381_3.JPEG", picture(3)},
		{"train/n01739381/n01739381_4.JPEG", picture(3)},
		{"train/n01739381/n01739381_5.JPEG", picture(5)[:300]},
		{"train/n01739381/n01739381_6.JPEG", []byte("gone")},
		{"train/n01739381/n01739381_7.JPEG", picture(7)},
		{"train/n02105855/n02105855_8.JPEG", picture(7)},
		{"val/n01739381/ILSVRC2012_val_00000001.JPEG", picture(3)},
		{"val/n01739381/ILSVRC2012_val_00000002.JPEG", picture(9)},
	}
	for i := range files {
		files[i].name = "imagenet/" + files[i].name
	}
	r, err := Check("imagenet", Options{Dir: put(t, files...)})
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]struct {
		count   int
		problem bool
		text    string // in what is said and named
	}{
		"classes":                           {2, true, "published: 1000"},
		"training pictures":                 {10, true, "published: 1281167"},
		"test pictures":                     {2, true, "published: 50000"},
		"classes of another size":           {2, true, "n01739381: 7"},
		"classes without a test picture":    {1, true, "n02105855"},
		"broken pictures":                   {2, true, "n01739381_5.JPEG"},
		"grey pictures":                     {1, false, "three equal channels"},
		"CMYK pictures":                     {1, false, "known: 22"},
		"PNG pictures":                      {2, false, "1 of them are not so in the published set [train/n02105855/n02105855_1.JPEG]"},
		"pictures twice in a class":         {1, false, "n01739381_3.JPEG = train/n01739381/n01739381_4.JPEG"},
		"test pictures that are trained on": {1, false, "n01739381_4.JPEG = val/n01739381/ILSVRC2012_val_00000001.JPEG"},
		"pictures in two classes":           {1, false, "n01739381_7.JPEG = train/n02105855/n02105855_8.JPEG"},
	} {
		f := found(t, r, what)
		if f.Count != want.count || f.Problem != want.problem || !strings.Contains(fmt.Sprint(f.Note, " ", f.Names), want.text) {
			t.Errorf("%s: %+v, want %+v", what, f, want)
		}
		if f.Problem && f.Do == "" {
			t.Errorf("%s: nothing to do about it", what)
		}
	}
	if r.Problems() != 6 || r.Samples != 12 || r.Unread != 2 {
		t.Errorf("%d problems, %d samples, %d unread", r.Problems(), r.Samples, r.Unread)
	}
}

// The same machinery looks at tars in place, and at sets whose counts nothing is
// published of; the published oddities are no finding worth a name.
func TestCheckOfTarsAndOthers(t *testing.T) {
	t.Parallel()
	_, tars := ilsvrc()
	r, err := Check("imagenet", Options{Dir: put(t, tars...)})
	if err != nil {
		t.Fatal(err)
	}
	if f := found(t, r, "training pictures"); f.Count != 12 {
		t.Errorf("%+v", f)
	}
	r, err = Check("imagenet", Options{Dir: put(t, tars[:2]...)})
	if err != nil || r.Problems() != 1 || !strings.Contains(found(t, r, "labels").Do, "ILSVRC2012_devkit_t12.tar.gz") {
		t.Errorf("%+v, %v", r, err)
	}
	var all []labelled
	c := &checked{}
	for _, name := range append(append([]string{}, odd.cmyk...), odd.png...) {
		all = append(all, labelled{file: &file{name: "train/n/" + name + ".JPEG"}})
		c.look = append(c.look, map[bool]string{true: cmyk, false: asPNG}[len(all) <= 22])
		c.sum = append(c.sum, [16]byte{byte(len(all))})
	}
	c.list, c.train = all, len(all)
	for _, f := range c.findings(true) {
		if f.Problem || len(f.Names) > 0 || !strings.Contains(f.Note, "those that are known") {
			t.Errorf("%+v", f)
		}
	}
	if len(all) != 23 {
		t.Errorf("%d odd pictures", len(all))
	}
	for _, set := range []string{"mnist", "imagenette"} {
		var missing *MissingError
		if _, err := Check(set, Options{}); !errors.As(err, &missing) {
			t.Errorf("%s: %v", set, err)
		}
	}
	if r, err := Check("digits", Options{}); err != nil || r.Origin != BuiltIn || r.Err() != nil {
		t.Errorf("digits: %+v, %v", r, err)
	}
}
