package data

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// withLabel adds the first column as the label to options that name none.
func withLabel(options string) string {
	if strings.Contains(options, "label=") {
		return options
	}
	return options + ",label=1"
}

// opened reads a table without scaling, all of it as the test set too.
func opened(t *testing.T, text, options string) (x []float32, y []int32, note string) {
	t.Helper()
	dir := t.TempDir()
	store(t, filepath.Join(dir, "t.csv"), []byte(text))
	ds := open(t, "csv(path=t.csv,test_path=t.csv,scale=none"+withLabel(options)+")", Options{Dir: dir})
	b := batch(t, ds.Test, 0, ds.Test.Len())
	return b.X, b.Y, ds.Note
}

// Line 1 is names or a sample by what all columns show, and the note says which.
func TestCSVHeader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, options string
		names         bool
		samples       int
	}{
		"numbers beside a name":         {"label,0,1,2\n0,1.0,2.0,3.0\n1,2.0,1.0,0.5\n", "", true, 2},
		"fractions beside a name":       {"label,400.5,401.5\n0,1.0,2.0\n1,2.0,1.0\n", "", true, 2},
		"numbers, labels are texts":     {"kind,0,1\ncat,1.5,2\ndog,2,1\ncat,1,1\n", "", true, 3},
		"numbers from 1":                {"1,2,3,kind\n1.5,2,1,cat\n2,1,1,dog\n2,1,1,dog\n", ",label=4", true, 3},
		"numbers alone":                 {"0,1,2,3,4\n7,1,2,3,4\n0,5,5,5,5\n0,1,1,1,1\n", "", true, 3},
		"numbers above fractions":       {"0,1,2\n0,1.5,2.0\n1,0.5,1.0\n0,2.5,1.5\n", "", true, 3},
		"whole above fractions":         {"0,4,2\n0,1.5,2.0\n1,0.5,1.0\n0,2.5,1.5\n", "", false, 4},
		"an index and numbers":          {",0,1,2\n0,1.5,2,1\n1,2.5,2,0\n2,2.5,2,0\n", ",label=4", true, 3},
		"years among names":             {"y,age,2019,2020\n0,1,2,3\n1,2,3,4\n", "", true, 2},
		"names":                         {"y,a\n1,2\n0,3\n", "", true, 2},
		"a number names texts":          {"0,1\ncat,2\ndog,3\n", "", true, 2},
		"a sample":                      {"1,2\n0,3\n", "", false, 2},
		"a class of one":                {"ant,2.5,2\nbee,3,1\nbee,3,2\n", "", false, 3},
		"counts columns, label repeats": {"0,1,2\n1,3,1\n0,1,2.5\n", "", false, 3},
		"texts as labels":               {"2;3;x\n4;5;y\n", ",label=3", false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			_, y, note := opened(t, c.text, c.options)
			want := map[bool]string{true: "line 1 holds the names of columns", false: "line 1 is a sample"}[c.names]
			if len(y) != c.samples || !strings.Contains(note, want) {
				t.Errorf("%d samples, note %q; want %d, %q", len(y), note, c.samples, want)
			}
		})
	}
}

// A first sample with a gap is not taken for names, nor is what could be either.
func TestCSVFirstLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, options, want string }{
		"a gap":            {"5.1,?,1.4,a\n4.9,3.0,1.4,a\n6.2,3.4,5.4,b\n", ",label=4", "t.csv:1: column 2: want a number"},
		"an empty field":   {"5.1,,1.4,0\n4.9,3.0,1.4,0\n6.2,3.4,5.4,1\n", ",label=4", "t.csv:1: column 2: want a number"},
		"a word":           {"5.1,none yet,1.4,a\n4.9,3.0,1.4,a\n6.2,3.4,5.4,b\n", ",label=4", "t.csv:1: column 2: want a number"},
		"a word, no class": {"5.1,unk,1.4,c\n4.9,3.0,1.4,a\n6.2,3.4,5.4,b\n", ",label=4", "t.csv:1: column 2: want a number"},
		"either":           {"kind,400.5,401,402\na,1,2,3\na,2,3,1\nb,2,1,1\n", "", "label=kind"},
		"a label's value":  {"5.1,3,a\n4.9,3.0,a\n6.2,3.4,b\n", ",label=a", "is a label of samples below"},
		"label twice":      {"y,y,a\n1,2,3\n0,1,2\n", ",label=y", `two columns are called "y"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store(t, filepath.Join(dir, "t.csv"), []byte(c.text))
			_, err := Open("csv(path=t.csv"+withLabel(c.options)+")", Options{Dir: dir})
			refused(t, err, []string{c.want})
		})
	}
}

// Equal numbers are one class, whatever file writes them how; other texts are not.
func TestCSVEqualLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store(t, filepath.Join(dir, "a.csv"), []byte("y,a,b\n0.0,1,2\n1.0,3,1\n0.0,1,2.5\n1.0,3,1.5\n"))
	store(t, filepath.Join(dir, "b.csv"), []byte("y,a,b\n0,1,2\n1,3,1\n"))
	ds := open(t, "csv(path=a.csv,test_path=b.csv,label=1)", Options{Dir: dir})
	if ds.Train.Sample().Classes != 2 || !slices.Equal(batch(t, ds.Test, 0, 2).Y, []int32{0, 1}) {
		t.Errorf("%d classes, %v", ds.Train.Sample().Classes, batch(t, ds.Test, 0, 2).Y)
	}
	for label, want := range map[string]string{"0": "0", "-0.0": "0", "+1": "1", "1e0": "1", "007": "7", "-2.50": "-2.5", "1.5e3": "1500",
		"9007199254740993": "9007199254740993", "9007199254740992": "9007199254740992", "cat": "cat", "1x": "1x", "000": "0"} {
		if got := classOfLabel(label); got != want {
			t.Errorf("%s is class %s, want %s", label, got, want)
		}
	}
}

// A missing label is no class, however it is spelt.
func TestCSVMissingLabel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, gap := range []string{"NaN", "nan", "-nan", "NA", "N/A", "<NA>", "null", "None", "?"} {
		store(t, filepath.Join(dir, "t.csv"), []byte("a,b,y\n1,2,0\n3,1,1\n1,2.5,"+gap+"\n3,1.5,1\n"))
		_, err := Open("csv(path=t.csv,label=y)", Options{Dir: dir})
		refused(t, err, []string{"t.csv:4: the label, column 3 (y), is missing", gap})
	}
	store(t, filepath.Join(dir, "t.csv"), []byte("a,y\n1,2\n3,-Inf\n"))
	_, err := Open("csv(path=t.csv,label=y)", Options{Dir: dir})
	refused(t, err, []string{`t.csv:3: the label, column 2 (y), is "-Inf"; want a name or a finite number`})
}

// pandas' index is no feature and no label; a count of the lines that has a name is noted.
func TestCSVIndex(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"in order":  ",a,species\n0,5,cat\n1,6,dog\n2,7,cat\n",
		"drawn":     ",a,species\n17,5,cat\n3,6,dog\n8,7,cat\n",
		"of R":      "\"\",\"a\",\"species\"\n\"1\",5,\"cat\"\n\"2\",6,\"dog\"\n\"3\",7,\"cat\"\n",
		"read once": "Unnamed: 0,a,species\n0,5,cat\n1,6,dog\n2,7,cat\n",
		"twice":     ",Unnamed: 0,a,species\n0,4,5,cat\n1,2,6,dog\n2,3,7,cat\n",
	} {
		t.Run(name, func(t *testing.T) {
			x, y, note := opened(t, text, ",label=species")
			if !slices.Equal(x, []float32{5, 6, 7}) || !slices.Equal(y, []int32{0, 1, 0}) || !strings.Contains(note, "left out: an index without a name") {
				t.Errorf("%v, %v, %q", x, y, note)
			}
		})
	}
	dir := t.TempDir()
	for text, want := range map[string]string{
		",y,a\n0,0,1.5\n1,1,2.5\n2,0,3\n3,1,4\n": "the label's column, 1, has no name",
		"y,,a\n0,0.5,1.5\n1,1,2.5\n0,2,3\n":      "column 2 has no name and is no index",
		",y\n0,cat\n1,dog\n2,dog\n":              "no feature beside the label",
		"1,5\n2,6\n3,7\n4,8\n":                   "each of the 4 samples has a label of its own in column 1",
		"Unnamed: 0,y,a\n0,0,1\n1,1,2\n2,0,3\n":  "the label's column, 1, has no name",
		",y,a\n0,0,1.5\n0,1,2.5\n2,0,3\n3,1,4\n": "the label's column, 1, has no name",
	} {
		store(t, filepath.Join(dir, "t.csv"), []byte(text))
		options := ""
		if strings.HasPrefix(text, ",y\n") {
			options = ",label=y"
		}
		_, err := Open("csv(path=t.csv"+withLabel(options)+")", Options{Dir: dir})
		refused(t, err, []string{want})
	}
	if _, _, note := opened(t, "y,id,a\n0,1,5\n1,2,6\n0,3,5\n", ""); !strings.Contains(note, "column id counts the lines") {
		t.Errorf("note %q", note)
	}
}

// The columns of the test set are the training set's by name, or it is refused.
func TestCSVColumns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	train := "y,a,b\n0,1,2\n1,3,1\n0,1,2.5\n1,3,1.5\n"
	for name, c := range map[string]struct{ train, test, want string }{
		"another order": {train, "y,b,a\n0,2,1\n1,1,3\n", ""},
		"label last":    {train, "a,b,y\n1,2,0\n3,1,1\n", ""},
		"an index":      {",y,a,b\n0,0,1,2\n1,1,3,1\n2,0,1,2.5\n", ",b,a,y\n7,2,1,0\n9,1,3,1\n", ""},
		"number names":  {"y,1,0\n0,1,2\n1,3,1\n0,1,2.5\n", "y,0,1\n0,2,1\n1,1,3\n", ""},
		"another name":  {train, "y,a,c\n0,1,2\n", "without b; more: c"},
		"one more":      {train, "y,a,b,c\n0,1,2,3\n", "without none; more: c"},
		"one less":      {train, "y,a\n0,1\n", "without b; more: none"},
		"no label":      {train, "z,a,b\n0,1,2\n", `there is no column "y"`},
		"twice":         {train, "y,b,a,a\n0,1,2,3\n", `two columns are called "a"`},
		"no names":      {train, "0,1,2\n1,3,1\n", `there is no column "y"`},
		"names alone":   {"0,1,2\n1,3,1\n0,1,2.5\n", "y,a,b\n0,1,2\n1,3,1\n", "its columns have names, those of the training set no names"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(dir, name)
			store(t, filepath.Join(dir, "a.csv"), []byte(c.train))
			store(t, filepath.Join(dir, "b.csv"), []byte(c.test))
			options := ""
			if strings.HasPrefix(c.train, ",y") {
				options = ",label=y"
			}
			ds, err := Open("csv(path=a.csv,test_path=b.csv,scale=none"+withLabel(options)+")", Options{Dir: dir})
			if c.want != "" {
				refused(t, err, []string{"b.csv", c.want})
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if b := batch(t, ds.Test, 0, 2); !slices.Equal(b.X, []float32{1, 2, 3, 1}) || !slices.Equal(b.Y, []int32{0, 1}) {
				t.Errorf("%v, %v", b.X, b.Y)
			}
		})
	}
	store(t, filepath.Join(dir, "a.csv"), []byte(train))
	store(t, filepath.Join(dir, "b.csv"), []byte("y,a,b\n0,1,2\n7,3,1\n7,3,1\n"))
	if ds := open(t, "csv(path=a.csv,test_path=b.csv,label=1)", Options{Dir: dir}); !strings.Contains(ds.Note, "the test set alone has 2 samples of class 7") {
		t.Errorf("note %q", ds.Note)
	}
}

// Numbers that are large beside their differences keep those: they are scaled before they
// are rounded to float32. Unscaled they are lost, which is noted.
func TestLargeOffset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "y,t,b\n"
	var x, y []float64
	for i := range 30 {
		text += fmt.Sprintf("%d,%d.0,%d\n", i%3, 1700000000+i, i%7)
		x, y = append(x, 1.7e9+float64(i)), append(y, float64(i%3))
	}
	store(t, filepath.Join(dir, "t.csv"), []byte(text))
	store(t, filepath.Join(dir, "X.npy"), npyOf("<f8", []int{30, 1}, x))
	store(t, filepath.Join(dir, "y.npy"), npyOf("<i8", []int{30}, y))
	for spec, dim := range map[string]int{"csv(path=t.csv,label=1)": 2, "npy(path=.)": 1} {
		b := batch(t, open(t, spec, Options{Dir: dir}).Train, 0, 24)
		seen := map[float32]bool{}
		for i := range 24 {
			seen[b.X[i*dim]] = true
		}
		if len(seen) != 24 {
			t.Errorf("%s: %d of 24 values are left", spec, len(seen))
		}
	}
	if ds := open(t, "csv(path=t.csv,scale=none,label=1)", Options{Dir: dir}); !strings.Contains(ds.Note, "feature 1 are one number in float32") {
		t.Errorf("note %q", ds.Note)
	}
	store(t, filepath.Join(dir, "t.csv"), []byte("1,0.1\n0,0.1\n1,0.1\n0,0.1\n1,0.1\n0,0.1\n"))
	if b := batch(t, open(t, "csv(path=t.csv,label=1)", Options{Dir: dir}).Train, 0, 4); !slices.Equal(b.X, make([]float32, 4)) {
		t.Errorf("a feature that never changes is %v", b.X)
	}
}

// UTF-16 and packed tables are read; what is no text is named.
func TestCSVEncodings(t *testing.T) {
	t.Parallel()
	text := "kind,a\nchêne,1\nhêtre,2\n"
	var little, big []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		little, big = binary.LittleEndian.AppendUint16(little, u), binary.BigEndian.AppendUint16(big, u)
	}
	for name, b := range map[string][]byte{"UTF-16LE": little, "UTF-16BE": big, "gzip": gz([]byte(text)), "zstd": zst([]byte(text)), "both": gz(little)} {
		if x, y, _ := opened(t, string(b), ""); !slices.Equal(x, []float32{1, 2}) || !slices.Equal(y, []int32{0, 1}) {
			t.Errorf("%s: %v, %v", name, x, y)
		}
	}
	dir := t.TempDir()
	for want, b := range map[string][]byte{
		"t.csv:1: a zero byte":            little[2:],
		"within a character":              little[:len(little)-1],
		".xlsx":                           zipBytes(entry{"a.xml", []byte("x")}),
		"a NumPy array":                   npyOf("<f4", []int{1}, []float64{1}),
		"a Parquet file":                  []byte("PAR1PAR1"),
		"t.csv: unpacking it: unexpected": gz([]byte(text))[:20],
	} {
		store(t, filepath.Join(dir, "t.csv"), b)
		_, err := Open("csv(path=t.csv,label=1)", Options{Dir: dir})
		refused(t, err, []string{want})
	}
}

// A table whose column of classes was not said is refused, and lists the columns.
func TestCSVWithoutLabel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"a,b,class\n1,1.5,0\n2,2.5,1\n3,1.5,0\n4,4,1\n": "fewest first: 3 (class): 2, 2 (b): 3, 1 (a): 4",
		"1,1.5,0\n2,2.5,1\n3,1.5,0\n4,4,1\n":            "fewest first: 3: 2, 1: 3, 2: 3", // line 1 may hold names
		"":                                              "no samples",
	} {
		store(t, filepath.Join(dir, "t.csv"), []byte(text))
		_, err := Open("csv(path=t.csv)", Options{Dir: dir})
		refused(t, err, []string{"t.csv", want})
	}
	store(t, filepath.Join(dir, "t.csv"), []byte("1,x\n2,y\n3,x\n4,y\n"))
	if ds := open(t, "csv(path=t.csv,label=-1)", Options{Dir: dir}); ds.Train.Sample().Classes != 2 {
		t.Errorf("%d classes", ds.Train.Sample().Classes)
	}
	for label, want := range map[string]string{"-3": "there is no column -3: want 1 to 2, or -1 for the last", "0": "there is no column 0"} {
		_, err := Open("csv(path=t.csv,label="+label+")", Options{Dir: dir})
		refused(t, err, []string{want})
	}
	wide := "label," + strings.Repeat("f,", 40) + "last\n" + strings.Repeat("1,", 41) + "2\n"
	store(t, filepath.Join(dir, "t.csv"), []byte(wide))
	_, err := Open("csv(path=t.csv,label=labl)", Options{Dir: dir})
	refused(t, err, []string{`there is no column "labl"; did you mean "label"? there are label, f`, "f, last"})
}

// A single class is refused, and numbers to predict; many whole numbers are noted.
func TestCSVNoClasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		label       func(i int) string
		refuse, say string
	}{
		"one class":       {func(int) string { return "7" }, "all 60 samples are of class 7; want two classes or more", ""},
		"a price":         {func(i int) string { return fmt.Sprint(0.5 + float64(i/2)) }, "column 1 holds 30 different numbers in 60 samples: want classes, not a number to predict", ""},
		"stars":           {func(i int) string { return fmt.Sprint(float64(i%4) / 2) }, "", ""},
		"an age":          {func(i int) string { return fmt.Sprint(20 + i/2) }, "", "30 classes in 60 samples: every value of the label is a class"},
		"names, as many":  {func(i int) string { return fmt.Sprint("p", i/5) }, "", "12 classes in 60 samples"},
		"few whole ones":  {func(i int) string { return fmt.Sprint(i % 6) }, "", ""},
		"two test labels": {func(i int) string { return map[bool]string{true: "a", false: "b"}[i < 2] }, "", ""},
	} {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, "%s,%d.5\n", c.label(i), i)
		}
		store(t, filepath.Join(dir, "t.csv"), []byte(b.String()))
		ds, err := Open("csv(path=t.csv,label=1)", Options{Dir: dir})
		if c.refuse != "" {
			refused(t, err, []string{c.refuse})
			continue
		}
		if err != nil || strings.Contains(ds.Note, "classes in") != (c.say != "") || !strings.Contains(ds.Note, c.say) {
			t.Errorf("%s: %v, note %q, want %q", name, err, ds.Note, c.say)
		}
	}
	store(t, filepath.Join(dir, "X.npy"), npyOf("<f8", []int{4, 1}, []float64{1, 2, 3, 4}))
	store(t, filepath.Join(dir, "y.npy"), npyOf("<i8", []int{4}, []float64{3, 3, 3, 3}))
	_, err := Open("npy(path=.)", Options{Dir: dir})
	refused(t, err, []string{"all 4 samples are of class 3"})
}
