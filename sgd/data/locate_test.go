package data

import (
	"os"
	"path/filepath"
	"testing"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"mnist": "mnist", "MNIST": "mnist", "fashion-mnist": "fashion", "Fashion_MNIST": "fashion", "fashion": "fashion",
		"cifar10": "cifar10", "cifar-10-batches-bin": "cifar10", "cifar-10-binary.tar.gz": "cifar10", "cifar-100-binary": "cifar100",
		"tiny-imagenet-200.zip": "tiny_imagenet", "tiny_imagenet": "tiny_imagenet", "imagenet": "imagenet", "ILSVRC2012": "imagenet",
		"text": "", "my-mnist": "", "": "",
	} {
		for _, r := range recipes {
			if r.claims(name) != (r.name == want) {
				t.Errorf("%s claims %q: %v", r.name, name, r.claims(name))
			}
		}
	}
}

func TestLookupOrder(t *testing.T) {
	tx, ty := idxPair(30, 8)
	vx, vy := idxPair(20, 4)
	files := []entry{{"train-images", tx}, {"train-labels", ty}, {"t10k-images", vx}, {"t10k-labels", vy}}
	in := func(folder string) []entry {
		var out []entry
		for _, f := range files {
			out = append(out, entry{folder + "/" + f.name, f.body})
		}
		return out
	}
	dir, cache, direct := put(t, in("MNIST")...), put(t, in("mnist")...), put(t, files...)
	empty := put(t, entry{"mnist/README", []byte("put it here")})
	check := func(what string, o Options, path string, from Origin) {
		t.Helper()
		loc, err := Locate("mnist", o)
		if err != nil || loc.Path != path || loc.Origin != from || loc.Found != (from != Absent) || len(loc.Files) != 4 {
			t.Errorf("%s: %+v, %v", what, loc, err)
		}
	}
	check("both", Options{Dir: dir, Cache: cache}, filepath.Join(dir, "MNIST"), FromDir)
	check("cache", Options{Dir: empty, Cache: cache}, filepath.Join(cache, "mnist"), Cached)
	check("the folder itself", Options{Dir: direct}, direct, FromDir)
	check("nowhere", Options{Dir: empty, Cache: empty}, filepath.Join(empty, "mnist"), Absent)
	linked := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "MNIST"), filepath.Join(linked, "mnist")); err != nil {
		t.Fatal(err)
	}
	check("a link", Options{Dir: linked}, filepath.Join(linked, "mnist"), FromDir)
	open(t, "mnist", Options{Dir: linked})
	if loc, err := Locate("digits", Options{}); err != nil || loc.Origin != BuiltIn || !loc.Found {
		t.Error(loc, err)
	}
	if _, err := Locate("mnits", Options{}); err == nil {
		t.Error("a misspelt name is found")
	}
	// Files of the same names that are another set's are left alone.
	old := recipes["fashion"]
	r := *old
	r.system, r.files = nil, []remote{{name: "t10k-labels-idx1-ubyte.gz", content: sum(vy)}}
	recipes["fashion"] = &r
	defer func() { recipes["fashion"] = old }()
	own := put(t, entry{"train-images-idx3-ubyte", tx}, entry{"train-labels-idx1-ubyte", ty}, entry{"t10k-images-idx3-ubyte", vx}, entry{"t10k-labels-idx1-ubyte", vy})
	if loc, _ := Locate("mnist", Options{Dir: own}); loc.Found {
		t.Error("mnist takes fashion's files")
	}
	if loc, _ := Locate("fashion", Options{Dir: own}); !loc.Found {
		t.Error("fashion does not take its own files")
	}
}

func TestFitsCountsClasses(t *testing.T) {
	t.Parallel()
	one := pngBytes(uniform(4, 4, grey))
	dir := put(t, entry{"train/a/0.png", one}, entry{"train/b/0.png", one}, entry{"val/a/0.png", one})
	for set, want := range map[string]bool{"imagenet": true, "cifar10": false, "tiny_imagenet": false, "mnist": false} {
		if loc, _ := Locate(set, Options{Dir: dir}); loc.Found != want {
			t.Errorf("%s found: %v", set, loc.Found)
		}
	}
}

func TestDefaultCache(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	if dir, err := DefaultCache(); err != nil || filepath.Base(dir) != "gradlab" {
		t.Error(dir, err)
	}
}
