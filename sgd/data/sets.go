package data

import (
	"fmt"
	"path"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// recipe is what is known of a set that comes as files.
type recipe struct {
	name        string
	aliases     []string // how its folder or archive may begin, letters and digits only
	system      []string // where a system package puts it
	hint        string   // another way to get it, for MissingError
	mirrors     []string // base addresses of files
	files       []remote // what to download
	kinds       []kind   // formats it may come in besides image folders
	text        bool     // it is one file, a text
	shape       sgd.Shape
	classes     int
	train, test int
	mean, std   []float32 // of inputs scaled to 0..1, by channel
	pad         int       // augmentation; see held
	flip        bool
	reflect     bool
	extra       Augmentation
	set         bool // some option of augmentation is
	licence     string
}

// remote is a file to download and what is known to check it by.
type remote struct {
	name    string
	size    int64  // 0 if not known
	raw     string // SHA-256 of the file
	content string // SHA-256 of the file unpacked
	md5     string // of the file: guards against accidents only
}

// content is the SHA-256 known for the unpacked file called name, "" if none.
func (r *recipe) content(name string) string {
	base := strings.TrimSuffix(path.Base(name), ".gz")
	for _, f := range r.files {
		if strings.TrimSuffix(f.name, ".gz") == base {
			return f.content
		}
	}
	return ""
}

var imageNetMean, imageNetStd = []float32{.485, .456, .406}, []float32{.229, .224, .225}

// recipes describes every set that comes as files. MNIST's original host is not
// among the mirrors: it often answers with an error page.
var recipes = map[string]*recipe{
	"mnist": {
		name: "mnist", aliases: []string{"mnist"}, kinds: []kind{idxKind},
		shape: sgd.Shape{C: 1, H: 28, W: 28}, classes: 10, train: 60000, test: 10000,
		mean: []float32{.1307}, std: []float32{.3081}, pad: 2, licence: "CC BY-SA 3.0",
		mirrors: []string{"https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"},
		files: []remote{
			{name: "train-images-idx3-ubyte.gz", size: 9912422,
				raw:     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
				content: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
			{name: "train-labels-idx1-ubyte.gz", size: 28881,
				raw:     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
				content: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
			{name: "t10k-images-idx3-ubyte.gz", size: 1648877,
				raw:     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
				content: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
			{name: "t10k-labels-idx1-ubyte.gz", size: 4542,
				raw:     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
				content: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
		},
	},
	"fashion": {
		name: "fashion", aliases: []string{"fashionmnist", "fashion"}, kinds: []kind{idxKind},
		system: []string{"/usr/share/datasets/fashion-mnist"}, hint: "on Debian and Ubuntu: apt install dataset-fashion-mnist",
		shape: sgd.Shape{C: 1, H: 28, W: 28}, classes: 10, train: 60000, test: 10000,
		mean: []float32{.2860}, std: []float32{.3530}, pad: 2, flip: true, licence: "MIT",
		mirrors: []string{"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"},
		files: []remote{
			{name: "train-images-idx3-ubyte.gz", content: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
			{name: "train-labels-idx1-ubyte.gz", content: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
			{name: "t10k-images-idx3-ubyte.gz", content: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
			{name: "t10k-labels-idx1-ubyte.gz", content: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
		},
	},
	"cifar10": {
		name: "cifar10", aliases: []string{"cifar10"}, kinds: []kind{cifar10Kind, pickleKind},
		shape: cifarShape, classes: 10, train: 50000, test: 10000,
		mean: []float32{.4914, .4822, .4465}, std: []float32{.2470, .2435, .2616}, pad: 4, flip: true,
		licence: "cite Krizhevsky 2009; no formal licence",
		mirrors: []string{"https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"},
		files: []remote{{name: "cifar-10-binary.tar.gz", size: 170052171, md5: "c32a1d4ab5d03f1284b67883e8d87530",
			raw: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
	},
	"cifar100": {
		name: "cifar100", aliases: []string{"cifar100"}, kinds: []kind{cifar100Kind, pickleKind},
		shape: cifarShape, classes: 100, train: 50000, test: 10000,
		mean: []float32{.5071, .4865, .4409}, std: []float32{.2673, .2564, .2762}, pad: 4, flip: true,
		licence: "cite Krizhevsky 2009; no formal licence",
		mirrors: []string{"https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"},
		files: []remote{{name: "cifar-100-binary.tar.gz",
			raw: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}},
	},
	"tiny_imagenet": {
		name: "tiny_imagenet", aliases: []string{"tinyimagenet"},
		shape: sgd.Shape{C: 3, H: 64, W: 64}, classes: 200, train: 100000, test: 10000,
		mean: []float32{.4802, .4481, .3975}, std: []float32{.2770, .2691, .2821}, pad: 8, flip: true,
		licence: "ImageNet terms: non-commercial research",
		mirrors: []string{"http://cs231n.stanford.edu/"},
		files:   []remote{{name: "tiny-imagenet-200.zip", size: 248100043, md5: "90528d7ca1a48142e341f4ef8d21d0de"}},
	},
	"shakespeare": {
		name: "shakespeare", aliases: []string{"shakespeare", "tinyshakespeare"}, text: true,
		shape: sgd.Shape{C: 1, H: 64, W: 1}, classes: 65, train: 1003790, test: 1742, licence: "public domain",
		mirrors: []string{"https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"},
		files: []remote{{name: "input.txt", size: 1115394,
			raw: "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"}},
	},
	"imagenette": tenClasses("imagenette", 9469, 3925, "e793b78cc4c9e9a4ccc0c1155377a412"),
	"imagewoof":  tenClasses("imagewoof", 9025, 3929, ""),
	"imagenet16": downsampled(16),
	"imagenet32": downsampled(32),
	"imagenet64": downsampled(64),
	"imagenet": {
		name: "imagenet", aliases: []string{"imagenet", "ilsvrc"},
		shape: sgd.Shape{C: 3, H: 64, W: 64}, train: 1281167, test: 50000,
		mean: imageNetMean, std: imageNetStd, flip: true,
		licence: "ImageNet terms: non-commercial research",
		hint:    "get it from https://image-net.org and put ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz, as they are, into one folder imagenet/, or unpack them to train/<class>/ and val/<class>/ (or val/ and LOC_val_solution.csv); other pictures of yours are data=pictures(path=…)",
	},
}

// MNIST is the handwritten digits of LeCun, Cortes and Burges: 60,000 + 10,000,
// 1×28×28. Inputs are (v/255 − 0.1307)/0.3081, or v/255 with scale=unit, as
// TensorFlow's tutorial has them. Augmentation shifts by ±2.
type MNIST struct {
	Scale string `doc:"standard: mean 0, deviation 1; unit: 0 to 1"`
}

// Validate checks the options.
func (s MNIST) Validate() error { return checkScale(s.Scale) }

func checkScale(scale string) error {
	if scale != "standard" && scale != "unit" {
		return fmt.Errorf("option \"scale\": want standard or unit, not %q", scale)
	}
	return nil
}

// Fashion is Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000,
// 1×28×28. Inputs are (v/255 − 0.2860)/0.3530, or v/255 with scale=unit.
// Augmentation shifts by ±2 and mirrors.
type Fashion struct {
	Scale string `doc:"standard: mean 0, deviation 1; unit: 0 to 1"`
}

// Validate checks the options.
func (s Fashion) Validate() error { return checkScale(s.Scale) }

// CIFAR10 is the ten-class tiny images of Krizhevsky 2009: 50,000 + 10,000,
// 3×32×32, with the channel means .4914 .4822 .4465 and deviations .2470 .2435
// .2616. Augmentation shifts by ±4 and mirrors, unless options say otherwise.
type CIFAR10 struct{ Shifts }

// CIFAR100 is CIFAR10's sibling with 100 (fine) classes, channel means .5071
// .4865 .4409 and deviations .2673 .2564 .2762.
type CIFAR100 struct{ Shifts }

// TinyImageNet is the Stanford course set: 200 classes, 100,000 + 10,000,
// 3×64×64, channel means .4802 .4481 .3975 and deviations .2770 .2691 .2821. Its
// validation part is the test set. Augmentation shifts by ±8 and mirrors.
type TinyImageNet struct{ Shifts }

var (
	_ = Sets.Add("mnist", "60,000 + 10,000 handwritten digits, 28×28", MNIST{Scale: "standard"})
	_ = Sets.Add("fashion", "Fashion-MNIST: 60,000 + 10,000 articles of clothing, 28×28", Fashion{Scale: "standard"})
	_ = Sets.Add("cifar10", "50,000 + 10,000 colour images, 10 classes, 32×32", CIFAR10{shifts(4)})
	_ = Sets.Add("cifar100", "50,000 + 10,000 colour images, 100 classes, 32×32", CIFAR100{shifts(4)})
	_ = Sets.Add("tiny_imagenet", "100,000 + 10,000 colour images, 200 classes, 64×64", TinyImageNet{shifts(8)})
)

// Open serves the set from memory.
func (s MNIST) Open(o Options) (sgd.Dataset, error) { return recipes["mnist"].scaled(s.Scale).open(o) }

// Open serves the set from memory.
func (s Fashion) Open(o Options) (sgd.Dataset, error) {
	return recipes["fashion"].scaled(s.Scale).open(o)
}

// scaled is the recipe with inputs left at 0 to 1 if scale is "unit".
func (r *recipe) scaled(scale string) *recipe {
	if scale != "unit" {
		return r
	}
	unit := *r
	unit.mean, unit.std = []float32{0}, []float32{1}
	return &unit
}

// Validate checks the options.
func (s CIFAR10) Validate() error { return s.validate(32) }

// Open serves the set from memory.
func (s CIFAR10) Open(o Options) (sgd.Dataset, error) {
	return recipes["cifar10"].with(s.Shifts).open(o)
}

// Validate checks the options.
func (s CIFAR100) Validate() error { return s.validate(32) }

// Open serves the set from memory.
func (s CIFAR100) Open(o Options) (sgd.Dataset, error) {
	return recipes["cifar100"].with(s.Shifts).open(o)
}

// Validate checks the options.
func (s TinyImageNet) Validate() error { return s.validate(64) }

// Open serves the set from memory.
func (s TinyImageNet) Open(o Options) (sgd.Dataset, error) {
	return recipes["tiny_imagenet"].with(s.Shifts).open(o)
}
