package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Files of one's own are looked at as a run reads them: samples and classes are counted,
// what was left out is said, some samples are drawn.
func TestCheckYours(t *testing.T) {
	t.Parallel()
	var pictures []entry
	for i := range 8 {
		pictures = append(pictures, entry{fmt.Sprintf("p/%s/%d.png", []string{"cat", "dog"}[i%2], i), shade(i)})
	}
	type numbers struct{ X float64 }
	files := append(pictures, entry{"p/cat/broken.jpg", []byte("no picture")}, entry{"p/cat/twin.png", shade(0)},
		entry{"p/notes.parquet", parquetBytes(t, []numbers{{1}}, 9)},
		entry{"p.tar", tarBytes(pictures...)},
		entry{"p.parquet", petsOf(t, "cat", "dog", "cat", "dog", "cat", "dog", "cat", "dog")},
		entry{"t.csv", []byte("\"\",a,still,kind\n0,1.5,7,cat\n1,2.5,7,dog\n2,3.5,7,cat\n3,4.5,7,dog\n")},
		entry{"s.csv", []byte("a,kind,still\n1.5,cat,7\n9,cow,7\n")},
		entry{"n/X.npy", npyOf("|u1", []int{4, 5, 5}, make([]float64, 100))}, entry{"n/y.npy", npyOf("|u1", []int{4}, []float64{1, 2, 1, 2})},
		entry{"t.txt", []byte(strings.Repeat("abc", 50))})
	dir := put(t, files...)
	for spec, want := range map[string][]string{
		"pictures(path=p)": {"classes 2: training + test pictures of each [cat: 5 + 1 dog: 3 + 1]", "broken pictures 1: they cannot be decoded", "pictures twice in a class 1",
			"left out: notes.parquet: no column of pictures", "2 pictures are held back for testing", "class cat: 8×8"},
		"pictures(path=p.tar)":     {"training pictures 6", "test pictures 2", "classes 2", "class dog: 8×8"},
		"pictures(path=p.parquet)": {"training pictures 6", "test pictures 2", "cat: 3 + 1", "p.parquet/p-000000"},
		"csv(path=t.csv,label=kind,test_path=s.csv)": {"training samples 4", "test samples 2", "cat: 2 + 1 cow: 0 + 1 dog: 2 + 0", "numbers a sample 2: 1x1x2: a, still",
			"numbers that never change 1: in training; they are 0 with scale=standard [2: 7]", "test samples that are trained on 1", "column 1 is left out",
			"the test set alone has 1 sample of class cow", "class cat: 1.5, 7"},
		"npy(path=n,test=0.5)":       {"classes 3", "1: 1 + 1", "no sample has label 0", "class 2: 0, 0, 0, 0, 0, 0, 0, 0, …"},
		"text(path=t.txt,context=4)": {"classes 3", "training samples 131"},
	} {
		r, err := Check(spec, Options{Dir: dir})
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		var said strings.Builder
		for _, f := range r.Findings {
			fmt.Fprintf(&said, "%s %d: %s %v\n", f.What, f.Count, f.Note, f.Names)
		}
		fmt.Fprintln(&said, strings.Join(append(r.Notes, r.Drawn...), "\n"))
		for _, w := range want {
			if !strings.Contains(said.String(), w) {
				t.Errorf("%s: nothing says %q:\n%s", spec, w, said.String())
			}
		}
		if r.Origin != Yours || r.Samples == 0 || (r.Problems() > 0) != (spec == "pictures(path=p)") {
			t.Errorf("%s: %s, %d samples, %d problems", spec, r.Origin, r.Samples, r.Problems())
		}
		d, err := Describe(spec, Options{Dir: dir})
		if err != nil || d.Samples != r.Samples || len(d.Drawn) > 0 || !slices.Equal(d.Findings[2].Names, r.Findings[2].Names) || d.Unread != 0 {
			t.Errorf("%s: described as %+v, %v", spec, d, err)
		}
	}
	for spec, want := range map[string]string{"csv(path=none.csv,label=y)": "there is no none.csv; looked in the folder of data sets " + dir, "npy(path=t.csv)": "t.csv is a file; path names the folder of X.npy and y.npy: path=.", "pictures(path=none)": "none", "csv": "say where the files are", "npy(path=p)": "X.npy"} {
		_, err := Check(spec, Options{Dir: dir})
		refused(t, err, []string{"data: ", want})
	}
}

// A plane of values is drawn from blank to full, and one that never changes is blank.
func TestShades(t *testing.T) {
	t.Parallel()
	lines := shades(64, 2, func(x, _ int) float64 { return float64(x) })
	if len(lines) != 2 || len(lines[0]) != 2+32 || !strings.HasPrefix(lines[0], "      .") || !strings.HasSuffix(lines[0], "%%%") {
		t.Errorf("%q", lines)
	}
	if got := shades(3, 1, func(int, int) float64 { return 5 }); got[0] != "     " {
		t.Errorf("%q", got)
	}
}
