package data

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/sgd"
)

// ilsvrc is a small ImageNet: its class folders, and the same as the tars that are
// downloaded. Numbers of classes are not in the order of folders.
func ilsvrc() (folders, tars []entry) {
	classes := []string{"n02119789", "n01440764", "n03000684"}
	numbers := []int{1, 449, 382}
	picture := func(c, i int) []byte {
		return jpegBytes(uniform(40+i, 50-3*i, color.RGBA{uint8(80 * c), uint8(40 * i), 100, 255}), 90)
	}
	var outer, val []entry
	truth := ""
	for c, class := range classes {
		var inner []entry
		for i := range 4 {
			e := entry{fmt.Sprintf("%s_%d.JPEG", class, 10+i), picture(c, i)}
			inner = append(inner, e)
			folders = append(folders, entry{"ImageNet/train/" + class + "/" + e.name, e.body})
		}
		outer = append(outer, entry{class + ".tar", tarBytes(inner...)})
	}
	for i := range 6 {
		c := (i * 2) % 3
		e := entry{fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", i+1), picture(c, i)}
		val = append(val, e)
		folders = append(folders, entry{"ImageNet/val/" + classes[c] + "/" + e.name, e.body})
		truth += fmt.Sprintln(numbers[c])
	}
	kit := "ILSVRC2012_devkit_t12/data/"
	return folders, []entry{
		{"ILSVRC2012_img_train.tar", tarBytes(outer...)},
		{"ILSVRC2012_img_val.tar", tarBytes(val...)},
		{"ILSVRC2012_devkit_t12.tar.gz", gz(tarBytes(
			entry{kit + "meta.mat", []byte("MATLAB 5.0 MAT-file, which nobody needs to read")},
			entry{kit + "ILSVRC2012_validation_ground_truth.txt", []byte(truth)},
			entry{kit + "ILSVRC2012_clsloc_validation_blacklist.txt", []byte("2\n36\n")},
			entry{"ILSVRC2012_devkit_t12/readme.txt", []byte("words")}))},
	}
}

// sameSet fails unless two data sets have the same samples under the same hash.
func sameSet(t *testing.T, what string, got, want sgd.Dataset) {
	t.Helper()
	if got.Hash != want.Hash || got.Train.Len() != want.Train.Len() || got.Test.Len() != want.Test.Len() || got.Train.Sample().Classes != want.Train.Sample().Classes {
		t.Errorf("%s: %d + %d samples of %d classes, hash %x; want %d + %d of %d, %x", what, got.Train.Len(), got.Test.Len(), got.Train.Sample().Classes, got.Hash,
			want.Train.Len(), want.Test.Len(), want.Train.Sample().Classes, want.Hash)
		return
	}
	for p, src := range []sgd.Source{got.Train, got.Test} {
		a, b := batch(t, src, 0, src.Len()), batch(t, []sgd.Source{want.Train, want.Test}[p], 0, src.Len())
		if !slices.Equal(a.X, b.X) || !slices.Equal(a.Y, b.Y) {
			t.Errorf("%s: other samples in part %d", what, p)
		}
	}
}

// The tars of ILSVRC2012 are the set that its class folders are, to the bit and the
// hash, with labels from the development kit, however they come.
func TestILSVRCTarsAreTheClassFolders(t *testing.T) {
	t.Parallel()
	folders, tars := ilsvrc()
	o := Options{Seed: 2, Augment: true}
	o.Dir = put(t, folders...)
	want := open(t, "imagenet(size=16)", o)
	below := func(dir string, files ...entry) (out []entry) {
		for _, f := range files {
			out = append(out, entry{dir + f.name, f.body})
		}
		return out
	}
	other := []entry{{"mnist/x.gz", []byte("others")}, {"tiny-imagenet/train/a/1.JPEG", folders[0].body}, {"cifar10.tar.gz", gz(tarBytes(folders...))}}
	for what, files := range map[string][]entry{
		"a folder of tars":          below("imagenet/", tars...),
		"among other data sets":     append(slices.Clone(tars), other...),
		"map_clsloc.txt":            append(below("imagenet/", tars[:2]...), entry{"imagenet/map_clsloc.txt", []byte("n02119789 1 kit_fox\nn01440764 2 tench\nn03000684 3 saw\n")}, entry{"imagenet/ILSVRC2012_validation_ground_truth.txt", []byte("1\n3\n2\n1\n3\n2\n")}),
		"folders by line":           append(below("imagenet/", tars[:2]...), entry{"imagenet/imagenet_2012_validation_synset_labels.txt", []byte("n02119789\nn03000684\nn01440764\nn02119789\nn03000684\nn01440764\n")}),
		"places in order of folder": append(below("imagenet/", tars[:2]...), entry{"imagenet/val.txt", []byte("ILSVRC2012_val_00000001.JPEG 1\nILSVRC2012_val_00000002.JPEG 2\nILSVRC2012_val_00000003.JPEG 0\nILSVRC2012_val_00000004.JPEG 1\nILSVRC2012_val_00000005.JPEG 2\nILSVRC2012_val_00000006.JPEG 0\n")}),
	} {
		o.Dir = put(t, files...)
		got, err := Open("imagenet(size=16)", o)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		sameSet(t, what, got, want)
	}
	o.Dir = put(t, below("imagenet/", tars[:2]...)...)
	if _, err := Open("imagenet", o); err == nil || !strings.Contains(err.Error(), "put ILSVRC2012_devkit_t12.tar.gz or LOC_val_solution.csv beside") {
		t.Errorf("without labels: %v", err)
	}
	o.Dir = put(t, append(below("imagenet/", tars[:2]...), entry{"imagenet/ILSVRC2012_validation_ground_truth.txt", []byte("1\n3\n2\n1\n3\n2\n")})...)
	if _, err := Open("imagenet", o); err == nil || !strings.Contains(err.Error(), `class "3" by number`) || !strings.Contains(err.Error(), "put map_clsloc.txt beside it") {
		t.Errorf("numbers of other classes: %v", err)
	}
	if w := strings.Fields(ilsvrc2012); len(w) != 1000 || w[0] != "n02119789" || w[448] != "n01440764" || w[999] != "n03255030" {
		t.Errorf("%d classes", len(w))
	}
}

// Shards of a WebDataset, with classes as numbers or names, in .cls or .json.
func TestWebDataset(t *testing.T) {
	t.Parallel()
	folders, _ := ilsvrc()
	class := map[string]int{"n01440764": 0, "n02119789": 1, "n03000684": 2}
	for _, form := range []string{"number.cls", "name.cls", "number.json", "both", "beside other sets"} {
		shards := map[string][]entry{}
		for i, f := range folders {
			comps := strings.Split(f.name, "/")
			split, wnid := map[string]string{"train": "train", "val": "validation"}[comps[1]], comps[2]
			key := strings.TrimSuffix(comps[3], ".JPEG")
			shard := fmt.Sprintf("imagenet1k-%s-%04d.tar", split, i%3)
			y := fmt.Sprint(class[wnid])
			add := func(ext, body string) { shards[shard] = append(shards[shard], entry{key + ext, []byte(body)}) }
			switch form {
			case "number.cls":
				add(".cls", y+"\n")
				add(".jpg", string(f.body))
			case "name.cls":
				add(".jpg", string(f.body))
				add(".cls", wnid)
			case "number.json":
				add(".jpg", string(f.body))
				add(".json", `{"filename":"x","label":`+y+`}`)
			default:
				add(".json", `{"label":"a word for it"}`)
				add(".cls", y)
				add(".jpg", string(f.body))
			}
		}
		var files []entry
		below := "imagenet/wds/"
		if form == "beside other sets" {
			below = ""
			files = append(files, entry{"cifar10/data_batch_1.bin", nil}, entry{"imagenet64-train-0.tar", nil}, entry{"others/dog.jpg", folders[0].body})
		}
		for name, in := range shards {
			files = append(files, entry{below + name, tarBytes(in...)})
		}
		o := Options{Dir: put(t, files...), Cache: t.TempDir()}
		for _, again := range []bool{false, true} { // from the index
			ds, err := Open("imagenet(size=16)", o)
			if err != nil {
				t.Fatalf("%s, again %v: %v", form, again, err)
			}
			if ds.Train.Len() != 12 || ds.Test.Len() != 6 || ds.Train.Sample().Classes != 3 {
				t.Fatalf("%s: %d + %d of %d classes", form, ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Classes)
			}
			for i, y := range batch(t, ds.Test, 0, 6).Y {
				if want := int32(i / 2); y != want {
					t.Errorf("%s: test sample %d has label %d, want %d", form, i, y, want)
				}
			}
		}
		indices, _ := filepath.Glob(filepath.Join(o.Cache, "index", "*.index"))
		if len(indices) != len(shards) {
			t.Errorf("%s: %d indices of %d shards", form, len(indices), len(shards))
		}
	}
}

// A tar is walked through once: the next time its index is read, unless it changed.
func TestIndexOfATar(t *testing.T) {
	t.Parallel()
	folders, tars := ilsvrc()
	o := Options{Dir: put(t, folders...)}
	want := open(t, "imagenet(size=16)", o)
	o.Dir, o.Cache = put(t, tars...), t.TempDir()
	sameSet(t, "first", open(t, "imagenet(size=16)", o), want)
	train := filepath.Join(o.Dir, "ILSVRC2012_img_train.tar")
	st, err := os.Stat(train)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := os.ReadFile(train)
	// The names within are written over: who reads the tar itself sees it.
	spoilt := bytes.ReplaceAll(whole, []byte("n01440764_1"), []byte("n01440764/1"))
	write := func(b []byte, when time.Time) {
		if err := os.WriteFile(train, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(train, when, when); err != nil {
			t.Fatal(err)
		}
	}
	write(spoilt, st.ModTime())
	sameSet(t, "from the index", open(t, "imagenet(size=16)", o), want)
	write(spoilt, st.ModTime().Add(time.Second))
	if _, err := Open("imagenet(size=16)", o); err == nil {
		t.Error("a tar that has changed is read by its old index")
	}
	write(whole, st.ModTime().Add(2*time.Second))
	sameSet(t, "changed back", open(t, "imagenet(size=16)", o), want)
	indices, _ := filepath.Glob(filepath.Join(o.Cache, "index", "*"))
	if len(indices) != 2 {
		t.Fatal(indices)
	}
	for _, at := range indices {
		good, _ := os.ReadFile(at)
		for _, damage := range [][]byte{good[:len(good)-1], good[:40], nil, append(bytes.Clone(good[:len(good)-9]), bytes.Repeat([]byte{255}, 9)...)} {
			os.WriteFile(at, damage, 0o644)
			sameSet(t, "a damaged index", open(t, "imagenet(size=16)", o), want)
		}
		if now, _ := os.ReadFile(at); !bytes.Equal(now, good) {
			t.Error("a damaged index is not replaced")
		}
	}
}
