package data

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Imagenette is ten easily told classes of ImageNet (Howard 2019, version 2): 9,469
// + 3,925 pictures, below folders train/ and val/, of any of its sizes (full, 320,
// 160 pixels), unpacked or as imagenette2-160.tgz, which is then held in memory.
// Pictures are cropped, scaled and normalised as ImageNet's.
type Imagenette struct {
	Size int `doc:"side of a sample in pixels"`
	Pictures
}

// Imagewoof is ten breeds of dogs of ImageNet, harder to tell apart than Imagenette's
// classes (Howard 2019, version 2): 9,025 + 3,929 pictures.
type Imagewoof struct {
	Size int `doc:"side of a sample in pixels"`
	Pictures
}

var (
	_ = Sets.Add("imagenette", "ten easy classes of ImageNet: 9,469 + 3,925 pictures, decoded as needed", Imagenette{128, defaultPictures})
	_ = Sets.Add("imagewoof", "ten breeds of dogs of ImageNet: 9,025 + 3,929 pictures, decoded as needed", Imagewoof{128, defaultPictures})
)

// Validate checks the options.
func (s Imagenette) Validate() error { return ImageNet(s).Validate() }

// Validate checks the options.
func (s Imagewoof) Validate() error { return ImageNet(s).Validate() }

// Open lists the pictures and serves them as they are asked for.
func (s Imagenette) Open(o Options) (sgd.Dataset, error) {
	return openTen("imagenette", ImageNet(s), o)
}

// Open lists the pictures and serves them as they are asked for.
func (s Imagewoof) Open(o Options) (sgd.Dataset, error) {
	return openTen("imagewoof", ImageNet(s), o)
}

func openTen(name string, s ImageNet, o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", name, err)
	}
	return recipes[name].openPictures(s.Size, s.Pictures, o, false)
}

// tenClasses is the recipe of such a set.
func tenClasses(name string, train, test int, md5 string) *recipe {
	return &recipe{
		name: name, aliases: []string{name},
		shape: sgd.Shape{C: 3, H: 128, W: 128}, classes: 10, train: train, test: test,
		mean: imageNetMean, std: imageNetStd, flip: true, licence: "Apache 2.0; the pictures: ImageNet terms",
		mirrors: []string{"https://s3.amazonaws.com/fast-ai-imageclas/"},
		files:   []remote{{name: name + "2-160.tgz", md5: md5}},
	}
}
