package data

import (
	"fmt"
	"hash/fnv"
	"image"

	"github.com/gradlab/gradlab/sgd"
)

// ImageNet is the user's own copy of ImageNet-1k, or any large image folder: a
// folder tree, a zip or an uncompressed tar. Pictures are decoded as a batch is
// filled, on all cores, and never held. Training images are cropped to the
// middle square, or, with augmentation, to a random part, and mirrored, as options
// say; test images to the middle 7/8 of the square. Either is scaled to Size×Size with a
// filter that averages. Channel means .485 .456 .406, deviations .229 .224 .225.
//
// The data set's Hash covers the names of the files and their classes, and not their bytes.
type ImageNet struct {
	Size int `doc:"side of a sample in pixels: 64 is tractable on a CPU, 224 is customary"`
	Pictures
}

var _ = Sets.Add("imagenet", "the user's own ImageNet or other image folder, decoded as needed", ImageNet{64, defaultPictures})

// Validate checks the options.
func (s ImageNet) Validate() error {
	if s.Size < 8 || s.Size > 1024 {
		return fmt.Errorf("size must be 8 to 1024, not %d", s.Size)
	}
	return s.validate(s.Size)
}

// Open lists the pictures and serves them from their files, which stay open.
func (s ImageNet) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: imagenet: %w", err)
	}
	return recipes["imagenet"].openPictures(s.Size, s.Pictures, o, true)
}

// openPictures lists the pictures of a set and serves them as they are asked for.
// With inPlace a compressed tar is refused; else what it holds is kept in memory.
func (r *recipe) openPictures(size int, how Pictures, o Options, inPlace bool) (sgd.Dataset, error) {
	loc, err := r.find(o)
	if err != nil {
		return sgd.Dataset{}, err
	}
	return r.servePictures(loc.Path, size, 0, how, o, inPlace)
}

// servePictures is openPictures for those at a path. share is how many of each class are
// for testing where nothing there says; 0: that is an error.
func (r *recipe) servePictures(at string, size int, share float64, how Pictures, o Options, inPlace bool) (sgd.Dataset, error) {
	t, err := openTree(at, inPlace, o.indices(), r.unpacking(o))
	if err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	parts, classes, err := t.imageFolder(share)
	if err != nil {
		if share > 0 {
			err = t.why(err)
		}
		t.Close()
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	var stores [2]*lazy
	lost := newUnreadable(len(parts[0])+len(parts[1]), o)
	h := fnv.New64a()
	for p := range stores {
		stores[p] = &lazy{
			set: r, tree: t, list: parts[p], cls: len(classes), test: p == 1, how: how,
			sh: sgd.Shape{C: 3, H: size, W: size}, scale: newScale(3, 255, r.mean, r.std), lost: lost,
		}
		for _, l := range parts[p] {
			if c := classes[l.label]; classOf(l.rel) != c { // a text says it
				fmt.Fprintf(h, "%d %s is %s\n", p, l.rel, c)
				continue
			}
			fmt.Fprintf(h, "%d %s\n", p, l.rel)
		}
	}
	kept := r.keepResized(stores, o)
	ds := dataset(stores[0], stores[1], o, true)
	ds.Name, ds.Hash = r.name, h.Sum64()
	ds.Note = fmt.Sprintf("%d classes at %d×%d pixels", len(classes), size, size)
	if t.divided {
		ds.Note += fmt.Sprintf("; %d pictures are held back for testing, a share of %g of each class", len(parts[1]), share)
	}
	if note := t.leftOut(); note != "" {
		ds.Note += "; " + note
	}
	if note := idle(how.set(), o); note != "" {
		ds.Note += "; " + note
	}
	if len(t.tables) > 0 {
		ds.Note += "; left out: " + listed(t.tables)
	}
	if kept != "" {
		ds.Note += "; " + kept
	}
	ds.LeftOut = lost.note
	return ds, nil
}

// lazy serves pictures straight from a tree.
type lazy struct {
	set  *recipe
	tree *tree
	list []labelled
	cls  int
	sh   sgd.Shape
	test bool
	how  Pictures
	lost *unreadable // of training and test pictures together

	resized *resized // pictures of both parts at a short side
	before  int      // how many there are of the other part's before these
	scale
}

func (z *lazy) len() int         { return len(z.list) }
func (z *lazy) form() sgd.Sample { return sgd.Sample{Shape: z.sh, Classes: z.cls} }

// read serves picture i. One that cannot be read is counted, and the next that
// can takes its place, the same on every rank.
func (z *lazy) read(i int, j jitter, to Item) error {
	for k := range z.list {
		l := &z.list[(i+k)%len(z.list)]
		err := z.picture((i+k)%len(z.list), j, to.X)
		if err == nil {
			to.Y[0] = l.label
			return nil
		}
		if err := z.lost.add(l.path(), err); err != nil {
			return fmt.Errorf("data: %s: %w", z.set.name, err)
		}
	}
	return fmt.Errorf("data: %s: none of %d pictures can be read", z.set.name, len(z.list))
}

// picture decodes picture i, seen through j.
func (z *lazy) picture(i int, j jitter, x []float32) error {
	keep, flip, sh := 1.0, false, atSide(z.sh, j.side)
	if z.test {
		keep = z.how.keep(z.sh.W)
	}
	part := func(w, h int) (r image.Rectangle) {
		if !j.on {
			return centre(w, h, sh.W, sh.H, keep)
		}
		r, flip = j.crop(w, h, sh.W, sh.H, z.how.MinArea, z.how.MaxAspect)
		return r
	}
	c := canvases.Get().(*canvas)
	defer canvases.Put(c)
	c.pix = grow(c.pix, sh.Len())
	show := z.decode
	if z.how.Cache > 0 {
		show = z.cached
	}
	if err := show(i, sh, part, c); err != nil {
		return err
	}
	flip = z.how.mirror(flip, i, j)
	plane := sh.H * sh.W
	for k := range z.scale {
		z.scale[k].moved(x[k*plane:(k+1)*plane], c.pix[k*plane:(k+1)*plane], sh.H, sh.W, 0, 0, flip, false)
	}
	z.how.light(x, sh, z.set.std, j)
	z.how.after(x, sh, j)
	return nil
}

// decode writes the part of picture i, of shape sh, to c.pix.
func (z *lazy) decode(i int, sh sgd.Shape, fr frame, c *canvas) error {
	l := &z.list[i]
	raw, err := z.tree.read(l.file)
	if err != nil {
		return err
	}
	return z.tree.wrap(l.path(), decode(raw, sh, fr, c.pix))
}
