package data

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Augmentation is what training pictures go through besides being cropped or
// shifted, in runs with augment=true. Draws are addressed by (seed, epoch, place in
// the epoch), so a sample looks the same whichever rank draws it.
type Augmentation struct {
	Flip   string  `doc:"mirror training pictures: random, half of them; alternate, each in every other epoch, beginning with a random half (Jordan 2024); none"`
	Erase  float64 `doc:"probability that a rectangle of 2 to 33 % of a training picture is set to the mean (random erasing, Zhong et al. 2020)"`
	Mixup  float64 `doc:"mix training pictures and their labels in pairs, by a share of Beta(mixup, mixup); 0: not (Zhang et al. 2018); 0.2 is customary"`
	Cutmix float64 `doc:"put a rectangle of one picture of a pair into the other, and mix their labels, by a share of Beta(cutmix, cutmix); 0: not (Yun et al. 2019); 1 is customary. With mixup, either by half"`
}

// Ways to mirror.
const (
	flipRandom    = "random"
	flipAlternate = "alternate"
	flipNone      = "none"
)

func (a Augmentation) validate() error {
	switch a.Flip {
	case flipRandom, flipAlternate, flipNone:
	default:
		return fmt.Errorf("option \"flip\": want random, alternate or none, not %q", a.Flip)
	}
	if !(a.Erase >= 0 && a.Erase <= 1) {
		return fmt.Errorf("option \"erase\": want a probability, 0 to 1, not %g", a.Erase)
	}
	for name, v := range map[string]float64{"mixup": a.Mixup, "cutmix": a.Cutmix} {
		if !(v == 0 || v >= 0.01 && v <= 4) {
			return fmt.Errorf("option %q: want 0.01 to 4, or 0, not %g", name, v)
		}
	}
	return nil
}

// idle says that options have no effect on a run without augmentation, "" if none is
// set.
func idle(set bool, o Options) string {
	if o.Augment || !set {
		return ""
	}
	return "options of augmentation have no effect without augment=true"
}

// mirror is whether sample i is mirrored, given what was drawn for it.
//
// Alternating: flip(i, epoch) = (epoch + r_i) mod 2, r_i a random bit, so that two
// epochs in succession show each picture both ways (Jordan 2024, arXiv:2404.00498,
// section 3.6).
func (a *Augmentation) mirror(drawn bool, i int, j jitter) bool {
	switch {
	case !j.on || a.Flip == flipNone:
		return false
	case a.Flip == flipAlternate:
		return (rng.New(j.seed, "flip").With(uint64(i)).Uint64(0)+j.epoch)&1 == 1
	}
	return drawn
}

// after changes a sample that is scaled already.
func (a *Augmentation) after(x []float32, sh sgd.Shape, j jitter) {
	if !j.on || a.Erase == 0 {
		return
	}
	key := j.key.With(eraseDraws)
	if key.Float64(0) >= a.Erase {
		return
	}
	// As torchvision: area and the logarithm of the aspect are uniform; after ten
	// misfits nothing is erased.
	for try := uint64(0); try < 10; try++ {
		area := float64(sh.H*sh.W) * (0.02 + float64(0.31*key.Float64(4*try+1)))
		aspect := portable.Exp((float64(2*key.Float64(4*try+2)) - 1) * portable.Log(3.3))
		h, w := int(math.Sqrt(area*aspect)+.5), int(math.Sqrt(area/aspect)+.5)
		if h < 1 || w < 1 || h >= sh.H || w >= sh.W {
			continue
		}
		top, left := key.IntN(4*try+3, sh.H-h+1), key.IntN(4*try+4, sh.W-w+1)
		for c := range sh.C {
			for y := top; y < top+h; y++ {
				at := (c*sh.H+y)*sh.W + left
				clear(x[at : at+w])
			}
		}
		return
	}
}

// Addresses of further draws of a sample, below its key.
const (
	eraseDraws = 1 + iota
	lightDraws
	mixDraws
)

// Shifts is the options of sets of small pictures.
type Shifts struct {
	Translate int    `doc:"training pictures are shifted by up to so many pixels each way"`
	Border    string `doc:"what comes in where they are shifted: black, or the picture itself, reflect"`
	Augmentation
}

// shifts is the defaults of a set.
func shifts(by int) Shifts { return Shifts{by, "black", Augmentation{Flip: flipRandom}} }

func (s Shifts) validate(side int) error {
	if s.Translate < 0 || s.Translate >= side {
		return fmt.Errorf("option \"translate\": want 0 to %d pixels, not %d", side-1, s.Translate)
	}
	if s.Border != "black" && s.Border != "reflect" {
		return fmt.Errorf("option \"border\": want black or reflect, not %q", s.Border)
	}
	return s.Augmentation.validate()
}

// with is the recipe of a set with these options.
func (r *recipe) with(s Shifts) *recipe {
	own := *r
	own.set = s != shifts(r.pad)
	own.pad, own.flip, own.reflect, own.extra = s.Translate, true, s.Border == "reflect", s.Augmentation
	return &own
}

// trainView is how training pictures are seen.
func (r *recipe) trainView(sc scale) view {
	return view{scale: sc, pad: r.pad, reflect: r.reflect, flip: r.flip, extra: r.extra}
}

// Pictures is the options of sets of large pictures.
type Pictures struct {
	Resize    int     `doc:"short side in pixels to which test pictures are scaled before their middle is cut out; 0: 8/7 of size, as 256 for 224"`
	MinArea   float64 `doc:"least share of a picture that a random crop shows"`
	MaxAspect float64 `doc:"most elongated random crop, width to height or height to width"`
	Augmentation
	Lighting float64 `doc:"deviation of the random light along the principal components of ImageNet's colours; AlexNet has 0.1 (Krizhevsky et al. 2012, section 4.1)"`
	Cache    int     `doc:"short side in pixels to which pictures are scaled once and kept, as bytes that all processes map: epochs then crop those, which gives other bits; 0: pictures are decoded each time"`
}

// defaultPictures is what pictures go through unless options say otherwise.
var defaultPictures = Pictures{MinArea: 0.08, MaxAspect: 4. / 3, Augmentation: Augmentation{Flip: flipRandom}}

func (s Pictures) validate(size int) error {
	switch {
	case s.Resize != 0 && (s.Resize < size || s.Resize > 2048):
		return fmt.Errorf("option \"resize\": want %d (size) to 2048 pixels, or 0, not %d", size, s.Resize)
	case !(s.MinArea > 0 && s.MinArea <= 1):
		return fmt.Errorf("option \"min_area\": want a share above 0, up to 1, not %g", s.MinArea)
	case !(s.MaxAspect >= 1 && s.MaxAspect <= 10):
		return fmt.Errorf("option \"max_aspect\": want 1 to 10, not %g", s.MaxAspect)
	case !(s.Lighting >= 0 && s.Lighting <= 10):
		return fmt.Errorf("option \"lighting\": want a deviation of 0 to 10, not %g", s.Lighting)
	}
	if s.Cache != 0 && (s.Cache < size || s.Cache > 2048) {
		return fmt.Errorf("option \"cache\": want %d (size) to 2048 pixels, or 0, not %d", size, s.Cache)
	}
	return s.Augmentation.validate()
}

// set tells whether an option of training is.
func (s Pictures) set() bool {
	s.Resize, s.Cache = 0, 0
	return s != defaultPictures
}

// keep is the share of its short side that a test picture is cut to.
func (s Pictures) keep(size int) float64 {
	if s.Resize == 0 {
		return 7. / 8
	}
	return float64(size) / float64(s.Resize)
}

// Principal components of the colours of ImageNet's training pictures, scaled to
// 0..1: deviations along them and directions (rows are red, green, blue), as
// published with fb.resnet.torch.
var (
	lightScale = [3]float64{0.2175, 0.0188, 0.0045}
	lightAxes  = [3][3]float64{{-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}}
)

// light adds Σ_k axis_k·α_k·scale_k to every pixel, α_k normal with deviation
// s.Lighting, in units of inputs of the deviations std.
func (s *Pictures) light(x []float32, sh sgd.Shape, std []float32, j jitter) {
	if !j.on || s.Lighting == 0 {
		return
	}
	key, plane := j.key.With(lightDraws), sh.H*sh.W
	for c := range sh.C {
		sum := 0.0
		for k := range 3 {
			sum += float64(lightAxes[c][k] * lightScale[k] * s.Lighting * key.Norm(uint64(k)))
		}
		add := float32(sum) / std[c]
		for i := range x[c*plane : (c+1)*plane] {
			x[c*plane+i] += add
		}
	}
}
