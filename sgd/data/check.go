package data

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"image/color"
	"image/jpeg"
	"slices"
)

// Finding is one thing that Check saw in a copy of a set.
type Finding struct {
	What    string   // such as "training pictures" or "grey pictures"
	Count   int      // how many there are
	Note    string   // what that means, or how many there should be
	Problem bool     // the copy is not as it should be: see Do
	Do      string   // what to do about a problem
	Names   []string // up to ten of what is counted, where names say something
}

// Report is what Check saw.
type Report struct {
	Location
	Findings []Finding
	Notes    []string // how files of one's own were understood, and what was left out
	Drawn    []string // some samples of one's own files, as lines of text
}

// Problems counts the findings that are.
func (r Report) Problems() (n int) {
	for _, f := range r.Findings {
		if f.Problem {
			n++
		}
	}
	return n
}

// What is published of ImageNet-1k (ILSVRC2012, classification).
const (
	imageNetClasses  = 1000
	imageNetSmallest = 732 // training pictures in the smallest class
	imageNetLargest  = 1300
)

// odd is the pictures of ImageNet-1k that are not colour JPEGs, as lists of them have
// been published (by cytsai: ilsvrc-cmyk-image-list): one PNG, and 22 JPEGs in CMYK.
var odd = struct {
	png  []string
	cmyk []string
}{
	png: []string{"n02105855_2933"},
	cmyk: []string{
		"n01739381_1309", "n02077923_14822", "n02447366_23489", "n02492035_15739", "n02747177_10752", "n03018349_4028",
		"n03062245_4620", "n03347037_9675", "n03467068_12171", "n03529860_11437", "n03544143_17228", "n03633091_5218",
		"n03710637_5125", "n03961711_5286", "n04033995_2932", "n04258138_17003", "n04264628_27969", "n04336792_7448",
		"n04371774_5854", "n04596742_4225", "n07583066_647", "n13037406_4650",
	},
}

// Check reads all of a copy of a set, and reports how it differs from what is published.
// Official files are compared with the published digests: what is wrong with them is in
// their states, and in Location.Err. Samples that no digest vouches for are read. Of
// pictures it reports classes, counts, pictures that cannot be read, that are twice there,
// that are grey, CMYK or PNG. Of a set of one's own files, which a spec names, it counts
// samples and classes, says what was left out and why, and draws some samples. The error is
// that of a set that is not there, a MissingError, or that cannot be read.
func Check(name string, o Options) (Report, error) {
	set, err := Sets.Parse(name)
	if err != nil {
		return Report{}, err
	}
	if _, own := set.(owned); own {
		return checkYours(set, o, true)
	}
	r, name, err := lookup(name)
	if err != nil {
		return Report{}, err
	}
	if r == nil {
		return Report{Location: Location{Name: name, Origin: BuiltIn, Found: true}}, nil
	}
	loc := r.locate(o)
	if !loc.Found {
		return Report{Location: loc}, r.missing(o, nil)
	}
	r.digests(&loc)
	if r.vouched(loc.Files) || r.text {
		return Report{Location: loc}, nil
	}
	t, err := openTree(loc.Path, r.name == "imagenet", o.indices(), r.unpacking(o))
	if err != nil {
		return Report{Location: loc}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	defer t.Close()
	if slices.Contains(r.kinds, npyKind) || r.packed(t) {
		r.readAll(t, &loc, o)
		return Report{Location: loc}, nil
	}
	out := Report{Location: loc}
	parts, classes, err := t.imageFolder(0)
	if err != nil {
		out.Findings = append(out.Findings, Finding{What: "labels", Problem: true, Note: err.Error(),
			Do: "have train/<class>/ and val/<class>/, or the tars ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz, in one folder"})
		return out, nil
	}
	list := slices.Concat(parts[0], parts[1])
	c := &checked{list: list, train: len(parts[0]), look: make([]string, len(list)), why: make([]error, len(list)), sum: make([][16]byte, len(list))}
	t.each(list, r.newWork(o, checking, "", pictureUnit, int64(len(list))), c.picture)
	out.Samples, out.Unread = len(list), len(c.named(unread))
	out.Findings = append(r.counts(parts, classes), c.findings(r.name == "imagenet")...)
	return out, nil
}

// each reads pictures on all cores and hands them, or why they cannot be read, to f,
// which several goroutines call at a time.
func (t *tree) each(list []labelled, w *work, f func(i int, raw []byte, err error)) {
	_ = parallel(len(list), func(i int) error {
		raw, err := t.read(list[i].file)
		f(i, raw, err)
		w.add(1)
		return nil
	})
}

// counts compares classes and numbers of pictures with what is published.
func (r *recipe) counts(parts [2][]labelled, classes []string) (out []Finding) {
	want := func(what string, n, published int, do string) {
		f := Finding{What: what, Count: n, Note: "as published"}
		if n != published {
			f.Note, f.Problem, f.Do = fmt.Sprintf("published: %d", published), true, do
		}
		if published == 0 {
			f.Note, f.Problem, f.Do = "", false, ""
		}
		out = append(out, f)
	}
	known := r.classes
	if r.name == "imagenet" {
		known = imageNetClasses
	}
	want("classes", len(classes), known, "unpack the archives anew: every class is a folder under train/; a folder too many is no class")
	want("training pictures", len(parts[0]), r.train, "unpack the training archive anew")
	want("test pictures", len(parts[1]), r.test, "unpack the validation archive anew")
	sizes := [2][]int{make([]int, len(classes)), make([]int, len(classes))}
	for p, list := range parts {
		for _, l := range list {
			sizes[p][l.label]++
		}
	}
	var few, none []string
	for y, c := range classes {
		if n := sizes[0][y]; r.name == "imagenet" && (n < imageNetSmallest || n > imageNetLargest) {
			few = append(few, fmt.Sprintf("%s: %d", c, n))
		}
		if sizes[1][y] == 0 {
			none = append(none, c)
		}
	}
	if len(few) > 0 {
		out = append(out, Finding{What: "classes of another size", Count: len(few), Problem: true, Names: firstTen(few),
			Note: fmt.Sprintf("published: %d to %d training pictures each", imageNetSmallest, imageNetLargest), Do: "unpack the tars of these classes anew"})
	}
	if len(none) > 0 {
		out = append(out, Finding{What: "classes without a test picture", Count: len(none), Problem: true, Names: firstTen(none),
			Do: "unpack the validation archive anew, and look at its labels"})
	}
	return out
}

// checked is what was seen of pictures, by their place in the list.
type checked struct {
	list  []labelled
	train int // the first of them are training pictures
	look  []string
	why   []error
	sum   [][16]byte // of the bytes
}

// Odd looks of pictures.
const (
	unread = "broken"
	greys  = "grey"
	cmyk   = "CMYK"
	asPNG  = "PNG"
)

// picture looks at picture i.
func (c *checked) picture(i int, raw []byte, err error) {
	if err == nil {
		c.look[i], err = lookAt(raw)
	}
	if err != nil {
		c.look[i], c.why[i] = unread, err
	}
	sum := sha256.Sum256(raw)
	c.sum[i] = [16]byte(sum[:])
}

// lookAt decodes a picture and says what is odd about it, "" for nothing.
func lookAt(raw []byte) (string, error) {
	if _, err := decodeImage(raw); err != nil {
		return "", err
	}
	if bytes.HasPrefix(raw, []byte("\x89PNG")) {
		return asPNG, nil
	}
	if !bytes.HasPrefix(raw, []byte("\xff\xd8")) {
		return "", nil
	}
	cfg, err := jpeg.DecodeConfig(bytes.NewReader(raw))
	switch {
	case err != nil:
		return "", err
	case cfg.ColorModel == color.GrayModel:
		return greys, nil
	case cfg.ColorModel == color.CMYKModel:
		return cmyk, nil
	}
	return "", nil
}

// named is the paths of the pictures that look so.
func (c *checked) named(look string) (out []string) {
	for i, l := range c.look {
		if l == look {
			out = append(out, c.list[i].path())
		}
	}
	return out
}

// findings is what was seen of the pictures themselves; official says that they
// should be ImageNet-1k's.
func (c *checked) findings(official bool) (out []Finding) {
	if bad := c.named(unread); len(bad) > 0 {
		f := Finding{What: "broken pictures", Count: len(bad), Problem: true, Names: firstTen(bad), Note: "they cannot be decoded",
			Do: fmt.Sprintf("unpack these anew; runs leave them out with unreadable=%.2g", 1.01*float64(len(bad))/float64(len(c.list)))}
		for i, l := range c.look {
			if l == unread {
				f.Note = "they cannot be decoded; the first: " + c.why[i].Error()
				break
			}
		}
		out = append(out, f)
	}
	if n := c.named(greys); len(n) > 0 {
		out = append(out, Finding{What: "grey pictures", Count: len(n), Note: "read with three equal channels"})
	}
	for _, k := range []struct {
		look, note string
		published  []string
	}{{cmyk, "read as red, green and blue", odd.cmyk}, {asPNG, "read as what they are, whatever they are called", odd.png}} {
		got := c.named(k.look)
		f := Finding{What: k.look + " pictures", Count: len(got), Note: k.note, Names: firstTen(got)}
		if official {
			var other []string
			for _, path := range got {
				if !slices.Contains(k.published, stem(path)) {
					other = append(other, path)
				}
			}
			switch {
			case len(other) == 0 && len(got) == len(k.published):
				f.Note, f.Names = k.note+"; those that are known", nil
			case len(other) == 0:
				f.Note, f.Names = fmt.Sprintf("%s; known: %d. Others of these were converted, or are not here", k.note, len(k.published)), nil
			default:
				f.Note, f.Names = fmt.Sprintf("%s; %d of them are not so in the published set", k.note, len(other)), firstTen(other)
			}
		}
		if len(got) > 0 || official {
			out = append(out, f)
		}
	}
	return append(out, c.twins()...)
}

// twins is the pictures whose bytes are those of another.
func (c *checked) twins() (out []Finding) {
	order := make([]int, 0, len(c.list))
	for i, l := range c.look {
		if l != unread {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(bytes.Compare(c.sum[a][:], c.sum[b][:]), cmp.Compare(a, b))
	})
	var twice, leaked, torn []string
	for k := 1; k < len(order); k++ {
		i, j := order[k-1], order[k]
		if c.sum[i] != c.sum[j] {
			continue
		}
		pair := c.list[i].path() + " = " + c.list[j].path()
		switch {
		case c.list[i].label != c.list[j].label:
			torn = append(torn, pair)
		case i < c.train && j >= c.train:
			leaked = append(leaked, pair)
		default:
			twice = append(twice, pair)
		}
	}
	add := func(what string, names []string, note string) {
		if slices.Sort(names); len(names) > 0 {
			out = append(out, Finding{What: what, Count: len(names), Note: note, Names: firstTen(names)})
		}
	}
	add("pictures twice in a class", twice, "each counts twice in an epoch")
	add("test pictures that are trained on", leaked, "accuracy is a little too high by them")
	add("pictures in two classes", torn, "at most one of the labels can be learnt")
	return out
}

func firstTen(names []string) []string { return names[:min(len(names), named)] }
