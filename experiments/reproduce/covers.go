package reproduce

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
)

// covers judges how many of n published points lie inside intervals that should have
// nine in ten. Fewer than so many are evidence against that: of 16, 12 or more do in
// 98 % of cases, and 13 or more in 93 %.
func (r *Report) covers(name string, inside, n int) {
	likely := distuv.Binomial{N: float64(n), P: 0.9}
	least := 0
	for likely.CDF(float64(least)) < 0.05 {
		least++
	}
	r.between(HeldOut, name, "%", 90, 100*float64(inside)/float64(n), 100*float64(least)/float64(n), 100)
}

// Predicted is a published point that was not fitted, with what was predicted of it and
// where nine in ten should lie, in the point's unit.
type Predicted struct {
	Name      string  `json:"name"`
	Published float64 `json:"published"`
	Ours      float64 `json:"ours"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
}

// Inside says whether the published figure lies in the interval.
func (p Predicted) Inside() bool { return p.Low <= p.Published && p.Published <= p.High }

// predicts notes a prediction of a published point that was not fitted.
func (r *Report) predicts(name string, published, ours, low, high float64) {
	r.Predicted = append(r.Predicted, Predicted{name, published, ours, low, high})
}

// band is where rates of runs like one lie beside that of the virtual clock, nine in ten,
// by what is known of its cluster: 0.9 to 1.1, say. It is drawn on 16 workers or two hosts
// where there are more, and once for runs that are alike then.
type band struct{ low, high float64 }

func (l *Lab) band(ctx context.Context, keys ...string) (band, error) {
	c, err := l.weightless(1, keys...)
	if err != nil {
		return band{}, err
	}
	c = ask.Smaller(c)
	draws, warm, steps := 64, 1, 6
	if l.Quick {
		draws, steps = 24, 3
	}
	c.Steps = warm + steps
	key := fmt.Sprintf("%s, %d draws: ", c.Hash(), draws)
	low, ok1 := l.memory.get(key + "low")
	high, ok2 := l.memory.get(key + "high")
	if ok1 && ok2 {
		return band{low, high}, nil
	}
	release, err := l.turn(ctx)
	if err != nil {
		return band{}, err
	}
	defer release()
	time := func(ctx context.Context, c config.Config) (float64, error) {
		m, err := ask.Measure(ctx, c, ask.Watch{Stopping: l.stopping})
		if err != nil {
			return 0, err
		}
		return 1 / m.Rate(warm, 1), nil
	}
	whole, err := time(ctx, c)
	if err != nil {
		return band{}, err
	}
	in, err := ask.Propagate(ctx, c, draws, time)
	if err != nil {
		return band{}, err
	}
	b := band{whole / in.High, whole / in.Low}
	if err := l.memory.put(key+"low", b.low); err != nil {
		return b, err
	}
	return b, l.memory.put(key+"high", b.high)
}

// predict is predicts where the study made a rate, or something in proportion to one, of
// runs with these keys, unless the point was fitted.
func (l *Lab) predict(ctx context.Context, r *Report, kind Kind, name string, published, ours float64, keys ...string) error {
	if kind == Fitted || l.removed != nil {
		return nil
	}
	b, err := l.band(ctx, keys...)
	if err == nil {
		r.predicts(name, published, ours, ours*b.low, ours*b.high)
	}
	return err
}

// Goals: how many published points that were not fitted lie inside their intervals of
// 90 %, least and most, and how wide half an interval is at most, in the median. Per cent.
const leastInside, mostInside, mostWidth = 85, 95, 12

// Coverage is what all predictions of studies come to.
type Coverage struct {
	Points  int     `json:"points"`
	Inside  float64 `json:"inside_percent"`
	Width   float64 `json:"half_width_percent"` // in the median
	Median  float64 `json:"median_error_percent"`
	RMS     float64 `json:"rms_error_percent"`
	Studies int     `json:"studies"`
}

// Covered is the coverage of reports; ok says whether it is as it should be. Without
// predictions it is nil.
func Covered(reports []*Report) (c *Coverage, ok bool) {
	var off errs
	var widths []float64
	studies, inside := 0, 0
	for _, r := range reports {
		if len(r.Predicted) > 0 {
			studies++
		}
		for _, p := range r.Predicted {
			off.add(p.Ours, p.Published)
			widths = append(widths, (p.High-p.Low)/(p.High+p.Low))
			if p.Inside() {
				inside++
			}
		}
	}
	if studies == 0 {
		return nil, true
	}
	n := len(widths)
	c = &Coverage{Points: n, Inside: 100 * float64(inside) / float64(n), Width: 100 * median(widths), Median: 100 * median(off), RMS: 100 * off.rms(), Studies: studies}
	return c, c.Inside >= leastInside && c.Inside <= mostInside && c.Width <= mostWidth
}

// String is the coverage in a sentence.
func (c *Coverage) String() string {
	return fmt.Sprintf("of %d published points that were not fitted %.0f %% lie inside their 90 %% interval (%d to %d is right); half an interval is %.1f %% in the median (at most %d); errors: median %+.1f %%, rms %.1f %%",
		c.Points, c.Inside, leastInside, mostInside, c.Width, mostWidth, c.Median, c.RMS)
}

// writeCoverage says what predictions of several studies come to, study by study.
func writeCoverage(w io.Writer, reports []*Report) error {
	all, ok := Covered(reports)
	if all == nil || all.Studies < 2 {
		return nil
	}
	var parts []string
	for _, r := range reports {
		if c, _ := Covered([]*Report{r}); c != nil {
			parts = append(parts, fmt.Sprintf("%s %.0f of %d", r.Study, math.Round(c.Inside*float64(c.Points)/100), c.Points))
		}
	}
	verdict := "holds"
	if !ok {
		verdict = "MISSED"
	}
	_, err := fmt.Fprintf(w, "coverage: %v: %s (%s)\n", all, verdict, strings.Join(parts, ", "))
	return err
}
