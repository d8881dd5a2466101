// Package data reads labelled images and serves them as batches by address.
//
// A set is opened by its spec: "digits" (built in, the default), "mnist",
// "fashion", "cifar10", "cifar100", "tiny_imagenet", "imagenet(size=64)",
// "imagenet32", "imagenette" or "synthetic(dim=64,classes=10,n=4096)"; files of your
// own by "npy(path=folder)" and "csv(path=file,label=column)". Files are recognised by what is in
// them, not by what they are called: IDX, CIFAR binaries, pickles and .npz of arrays,
// folder trees of pictures, ImageNet's tars of tars, WebDataset shards,
// each perhaps gzipped or inside a tar, tar.gz, tar.zst or zip.
//
// Sets of small images are held in memory as bytes, channel by channel, and
// normalised with per-set constants as a batch is filled: x = (v/255 − mean)/std.
// The sample at a stream position, its augmentation and the order of an epoch
// are pure functions of (seed, position), so every rank and every mode sees the
// same stream.
package data

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
)

// Options says where to look for a set and how to serve it. The zero value
// looks at what the system has installed, and serves all of it unaugmented.
type Options struct {
	// Dir is a folder of data sets (Dir/mnist, Dir/cifar-10-batches-bin, …) or
	// of one. It is searched first.
	Dir string
	// Cache is the user's own folder: searched second, downloads land in
	// Cache/<set>. See DefaultCache. Empty means no cache.
	Cache string
	// KeepDecoded stores decoded image folders in Cache/decoded, so that the
	// next Open reads bytes instead of decoding JPEGs.
	KeepDecoded bool

	// Seed addresses the shuffle and the augmentation: the seed of the run.
	Seed uint64
	// Limit and TestLimit, if positive, serve only so many samples, picked by a
	// fixed permutation: the same for every seed, and a fair mix of the classes
	// even where the set is stored class by class.
	Limit, TestLimit int
	// Validation, if above 0, is the share of the training samples that is held out
	// and takes the place of the test set, which then nobody sees. They are picked by
	// the same permutation, so they are the same for every seed.
	Validation float64
	// Augment shifts and, where the set allows it, mirrors training images.
	Augment bool

	// Unreadable is the share of a set's pictures, 0 to 1, that may be broken:
	// they are counted and left out. More are an error; 0 permits none.
	Unreadable float64
	// Warn, if set, is told of what was left out as it is found. It may be called
	// by several goroutines at a time.
	Warn func(string)

	// Download lets Open fetch a set that is nowhere to be found.
	Download bool
	// Mirror, if set, is a base address tried before the official ones: files
	// are read from Mirror/<set>/<file>.
	Mirror string
	// Progress, if set, is called now and then during a download, and while Open or
	// Verify reads and decodes; by one goroutine at a time.
	Progress func(Progress)
}

// Progress is the state of one file's download, or of other work on a set.
type Progress struct {
	Set, File   string // File is "" for work on all of the set
	Done, Total int64  // in units; Total is −1 while unknown
	Doing       string // "" for a download; reading, decoding, checking
	Unit        string // "" for bytes; pictures
	Note        string // what came of it, for people to read; "" but at the end
}

// Set is the options of one data set. Open serves it, or says what is missing
// (see MissingError) or broken.
type Set interface {
	Open(Options) (sgd.Dataset, error)
}

// Sets is every data set by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Sets = registry.New[Set]("data")

// Open parses spec and opens the set. The data set is named by its canonical
// spec.
func Open(spec string, opt Options) (sgd.Dataset, error) {
	set, err := Sets.Parse(spec)
	if err != nil {
		return sgd.Dataset{}, err
	}
	ds, err := set.Open(opt)
	if err != nil {
		return sgd.Dataset{}, err
	}
	ds.Name = Sets.Spec(set)
	return ds, nil
}

// DefaultCache is the user's cache folder for data sets, such as
// ~/.cache/gradlab. It need not exist.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("data: no cache folder: %w", err)
	}
	return filepath.Join(dir, "gradlab"), nil
}

// Info describes a set for listings. Counts and shape are those of the official
// set; 0 where options or the user's files decide.
type Info struct {
	Name, About, Licence string
	Shape                sgd.Shape
	Classes, Train, Test int
	BuiltIn              bool  // needs no files
	Own                  bool  // of the user's own files, which its options name
	Public               bool  // Fetch downloads it
	Download             int64 // bytes to fetch, 0 if that is not known
}

// List describes every set, by name.
func List() []Info {
	var out []Info
	for _, e := range Sets.Entries() {
		in := Info{Name: e.Name, About: e.About, BuiltIn: true}
		if r, ok := recipes[e.Name]; ok {
			in.Licence, in.Shape, in.Classes = r.licence, r.shape, r.classes
			in.Train, in.Test, in.BuiltIn, in.Public = r.train, r.test, false, len(r.files) > 0
			for _, f := range r.files {
				in.Download += f.size
			}
		}
		if set, _ := Sets.Proto(e.Name); set != nil {
			if _, ok := set.(owned); ok {
				in.Own, in.BuiltIn = true, false
			}
		}
		if e.Name == "digits" {
			in.Licence, in.Shape, in.Classes = "CC BY 4.0", sgd.Shape{C: 1, H: 8, W: 8}, 10
			in.Train, in.Test = 1438, 359
		}
		out = append(out, in)
	}
	return out
}
