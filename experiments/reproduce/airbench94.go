package reproduce

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/bench"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
)

// Airbench94 takes parts out of airbench94 (Jordan 2024, arXiv 2404.00498), one at a
// time, in a small network, or trains it as published: 94.01 % on CIFAR-10 in 9.9 epochs.
// Where a python has PyTorch, an implementation there trains on the same samples, on a
// GPU if PyTorch sees one.
type Airbench94 struct {
	Published bool `doc:"instead of its parts the network as published, some hours of two cores; not with --quick"`
	Seeds     int  `doc:"of each side, 2 or more"`
}

var _ = Studies.Add("airbench94", "94 % on CIFAR-10 in 9.9 epochs: what each part of airbench94 is worth, and PyTorch beside it", Airbench94{Seeds: 5})

// Validate checks the options.
func (s Airbench94) Validate() error {
	if s.Seeds < 2 {
		return fmt.Errorf("seeds=%d: an interval needs 2 or more", s.Seeds)
	}
	return nil
}

// Group implements Study.
func (Airbench94) Group() Group { return Learning }

// Mechanisms implements Study.
func (Airbench94) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "whitening", Doc: "the first convolution begins with draws, and is trained", Off: airbenchLess(func(m *nn.Airbench94) { m.Whiten = false }), Slow: true},
		{Name: "identity", Doc: "convolutions begin with draws alone", Off: airbenchLess(func(m *nn.Airbench94) { m.Identity = false }), Slow: true},
		{Name: "alternating flip", Doc: "a random half of the pictures is mirrored in every epoch", Off: swap("data", `flip=alternate`, "flip=random"), Slow: true},
	}
}

// airbenchLess takes a part out of the network.
func airbenchLess(take func(*nn.Airbench94)) func(config.Config) []string {
	return func(c config.Config) []string {
		spec, err := nn.Models.Parse(c.Model)
		m, ok := spec.(nn.Airbench94)
		if err != nil || !ok {
			return nil
		}
		was := nn.Models.Spec(m)
		if take(&m); nn.Models.Spec(m) == was {
			return nil
		}
		return []string{"model=" + nn.Models.Spec(m)}
	}
}

// airbench is a size of the task.
type airbench struct {
	widths        []int
	train, test   int // samples
	batch         int
	epochs, start float64 // of lookahead, the latter
	looks         int     // at each test picture
}

const (
	airbenchData = "cifar10(translate=2,border=reflect,flip=alternate)"
	airbenchRule = "groups(on(chain(decay(rate=2.0788e-5,all=true),nesterov(beta=0.85)),names=[bn],lr=64),chain(decay(rate=1.33043e-3,all=true),nesterov(beta=0.85)))"
)

// model is the network, with further options.
func (a airbench) model(options string) string {
	if a.looks > 1 {
		options += fmt.Sprintf(",looks=%d", a.looks)
	}
	return fmt.Sprintf("model=airbench94(widths=%s%s)", strings.ReplaceAll(fmt.Sprint(a.widths), " ", ","), options)
}

// ahead is the update rule, with its lookahead.
func (a airbench) ahead() string {
	return fmt.Sprintf("optimizer=lookahead(%s,every=5,alpha=0.2262,ramp=3,start=%g,over=%g)", airbenchRule, a.start, a.epochs)
}

// keys are those of a run; later ones that replace some of them may follow.
func (a airbench) keys() []string {
	return []string{"data=" + airbenchData, "augment=true", fmt.Sprintf("train_limit=%d", a.train), fmt.Sprintf("test_limit=%d", a.test), "mode=reduce", "workers=1",
		fmt.Sprintf("batch=%d", a.batch), fmt.Sprintf("epochs=%g", a.epochs), "schedule=linear(trapezoid(lr=1.5,up=0.23,down=0.77,from=0.3,end=0.105),reference=1024)",
		a.ahead(), a.model("")}
}

// Sizes at which parts are taken out, with --quick and in full, and the published one.
var (
	quickAirbench = airbench{[]int{8, 32, 32}, 4096, 2000, 128, 5, 2, 1}
	partsAirbench = airbench{[]int{16, 64, 64}, 20000, 10000, 512, 8, 3, 1}
	wholeAirbench = airbench{[]int{64, 256, 256}, 50000, 10000, 1024, 9.9, 3, 6}
)

// Run implements Study.
func (s Airbench94) Run(ctx context.Context, lab *Lab) (*Report, error) {
	if s.Published && lab.Quick {
		return nil, fmt.Errorf("published=true has no quick form: leave --quick out")
	}
	r := &Report{
		Title: "parts taken out, and the whole",
		Source: "Jordan 2024, arXiv 2404.00498: whitening (section 3.2), convolutions that begin as the identity (3.3), lookahead (3.4) and alternating flip (3.6) each save epochs on the way to 94 % (as recalled); " +
			"airbench94.py: 94.01 % over 1,000 runs",
	}
	if s.Published {
		return r, s.published(ctx, lab, r)
	}
	return r, s.parts(ctx, lab, r)
}

// parts adds what each part is worth in a small network.
func (s Airbench94) parts(ctx context.Context, lab *Lab, r *Report) error {
	small := partsAirbench
	if lab.Quick {
		small = quickAirbench
	}
	r.Stated = append(r.Stated, fmt.Sprintf("parts: widths %v, %d pictures, batch %d, %g epochs, one look at %d test pictures; the published rates for 1,024 samples, scaled to the batch, lookahead from epoch %g; nothing is tuned",
		small.widths, small.train, small.batch, small.epochs, small.test, small.start))
	type way struct {
		name string
		keys []string
		kind Kind
	}
	ways := []way{
		{"all parts", nil, Claim},
		{"without whitening", []string{small.model(",whiten=false")}, Claim},
		{"without identity", []string{small.model(",identity=false")}, Hypothesis},
	}
	if !lab.Quick { // their effect is a fraction of a point
		r.Stated = append(r.Stated, "in full also random flips, and no lookahead")
		ways = append(ways, way{"random flips", []string{"data=" + strings.Replace(airbenchData, "flip=alternate", "flip=random", 1)}, Hypothesis},
			way{"without lookahead", []string{"optimizer=" + airbenchRule}, Hypothesis})
	}
	theirs, version, err := lab.inTorch(ctx, r, small, s.Seeds)
	if err != nil {
		return err
	}
	p := lab.plan(s.Seeds)
	var sides []*side
	for _, w := range ways {
		sides = append(sides, &side{name: w.name, sample: p.add(w.name, slices.Concat(small.keys(), w.keys)...)})
	}
	if err := p.make(ctx); err != nil {
		return err
	}
	table := figure.Table{Title: fmt.Sprintf("test accuracy in %%, %d seeds, 95 %% intervals; paired differences to all parts", s.Seeds), Header: []string{"", "accuracy", "difference", "p"}}
	for i, side := range sides {
		row := []string{side.name, plusMinus(side.accuracy()), "", ""}
		if i > 0 {
			d := stats.Paired(sides[0].bySeed(), side.bySeed())
			row[2], row[3] = fmt.Sprintf("%+.2f ± %.2f", d.Mean, d.Half), fmt.Sprintf("%.2g", d.P)
			r.better(ways[i].kind, sides[0], side)
		}
		table.Rows = append(table.Rows, row)
	}
	r.Tables = append(r.Tables, table)
	if err := lab.bothWays(r); err != nil {
		return err
	}
	if err := lab.passedOn(r); err != nil {
		return err
	}
	r.besideTorch(small, sides[0].sample, theirs, version)
	return nil
}

// published adds the network as published, beside the published accuracy and PyTorch's.
func (s Airbench94) published(ctx context.Context, lab *Lab, r *Report) error {
	r.Stated = append(r.Stated, "as published: six looks at each of 10,000 test pictures; not as there: the whitening bias is trained all the time, the last samples of an epoch are not dropped, lookahead leaves statistics alone")
	theirs, version, err := lab.inTorch(ctx, r, wholeAirbench, s.Seeds)
	if err != nil {
		return err
	}
	p := lab.plan(s.Seeds)
	whole := p.add("as published", wholeAirbench.keys()...)
	if err := p.make(ctx); err != nil {
		return err
	}
	r.Tables = append(r.Tables, figure.Table{Title: fmt.Sprintf("test accuracy in %%, %d seeds, 95 %% interval", s.Seeds), Header: []string{"", "accuracy"}, Rows: [][]string{{"as published", plusMinus(whole.accuracy())}}})
	half := whole.accuracy().Half // not judged, as a copy of CIFAR-10 may be JPEG
	r.between(Hypothesis, "as published: accuracy with six looks, to our interval", "%", 94.01, whole.accuracy().Mean, 94.01-half, 94.01+half)
	r.besideTorch(wholeAirbench, whole, theirs, version)
	return nil
}

// bothWays adds what alternating flip is (section 3.6): two epochs in succession show
// every picture as it is and mirrored. A random flip shows half of them so.
func (l *Lab) bothWays(r *Report) error {
	c := config.Default()
	spec := l.spec("data", "cifar10(translate=0,flip=alternate)")
	for _, kv := range [][2]string{{"data", spec}, {"augment", "true"}, {"train_limit", "512"}, {"test_limit", "16"}} {
		if err := c.Set(kv[0], kv[1]); err != nil {
			return err
		}
	}
	of, err := c.Resolve()
	if err != nil {
		return err
	}
	ds, err := of.Open(l.Runs.Places, nil)
	if err != nil {
		return err
	}
	n, dim := ds.Train.Len(), ds.Train.Sample().Shape.Len()
	var epochs [2]map[string]bool
	for e := range epochs {
		var b sgd.Batch
		if err := ds.Train.Batch(sgd.Draw{First: uint64(e * n), N: n}, &b); err != nil {
			return err
		}
		epochs[e] = map[string]bool{}
		for i := range n {
			epochs[e][fmt.Sprint(b.X[i*dim:(i+1)*dim])] = true
		}
	}
	both := 0
	for seen := range epochs[0] {
		if !epochs[1][seen] { // the same picture, and not the same way
			both++
		}
	}
	r.between(Claim, "pictures that two epochs in succession show both ways", "%", 100, 100*float64(both)/float64(n), 99, 100)
	return nil
}

// passedOn adds what beginning as the identity is (section 3.3): as many filters of a
// convolution as it has inputs pass theirs on.
func (l *Lab) passedOn(r *Report) error {
	m, err := nn.Models.MustParse(l.spec("model", "airbench94(widths=[8,32,32])")).New(sgd.Sample{Shape: sgd.Shape{C: 3, H: 32, W: 32}, Classes: 10})
	if err != nil {
		return err
	}
	layout := m.Layout()
	params := make([]float32, layout.Size())
	m.Init(params, 1)
	passed, all := 0, 0
	for i, s := range layout.Spans {
		in := s.Cols / 9 // of 3×3 taps
		if s.Role != sgd.Weight || s.Cols != 9*in || !strings.HasPrefix(s.Name, "conv") {
			continue
		}
		w := layout.View(params, i)
		for row := range min(in, s.Rows) {
			filter := w[row*s.Cols : (row+1)*s.Cols]
			all++
			if filter[4*in+row] == 1 && f32.Sum(filter) == 1 {
				passed++
			}
		}
	}
	r.between(Claim, "filters that pass an input on as it is, of as many as there are inputs", "%", 100, 100*float64(passed)/float64(all), 99.9, 100)
	return nil
}

// open is the data set of a task.
func (a airbench) open(at config.Places) (sgd.Dataset, error) {
	c := config.Default()
	for _, kv := range append(a.keys(), "augment=false") {
		key, value, _ := strings.Cut(kv, "=")
		if err := c.Set(key, value); err != nil {
			return sgd.Dataset{}, err
		}
	}
	of, err := c.Resolve()
	if err != nil {
		return sgd.Dataset{}, err
	}
	return of.Open(at, func(data.Progress) {})
}

// inTorch are the accuracies of PyTorch on the samples of a task, none where no python has it.
func (l *Lab) inTorch(ctx context.Context, r *Report, a airbench, seeds int) (accuracies []float64, version string, err error) {
	ds, err := a.open(l.Runs.Places)
	if err != nil {
		return nil, "", err
	}
	torch, err := bench.FindTorch(ctx, "", os.Environ())
	if err != nil {
		r.Notes = append(r.Notes, "no PyTorch is beside it: "+err.Error())
		return nil, "", nil
	}
	return l.trainInTorch(ctx, torch.Python, a, ds, seeds)
}

// besideTorch compares runs with those of PyTorch, if there are any.
func (r *Report) besideTorch(a airbench, ours *sample, theirs []float64, version string) {
	if len(theirs) == 0 {
		return
	}
	d := stats.Welch(theirs, ours.Values(percent))
	name := fmt.Sprintf("widths %v, %d looks", a.widths, a.looks)
	r.Tables = append(r.Tables, figure.Table{Title: strings.TrimSpace("test accuracy in %, beside PyTorch on the same samples " + version), Header: []string{"", "gradlab", "PyTorch", "difference"},
		Rows: [][]string{{name, plusMinus(ours.accuracy()), plusMinus(stats.Summarize(theirs)), fmt.Sprintf("%+.2f ± %.2f", d.Mean, d.Half)}}})
	r.between(Claim, name+": accuracy, less that of PyTorch, to its interval or half a point", "points", 0, d.Mean, -math.Max(d.Half, slack), math.Max(d.Half, slack))
}
