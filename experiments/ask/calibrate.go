package ask

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/progress"
)

// Calibration is what measurements say of a cluster's parameters.
//
// The logarithm of a predicted time minus that of the measured one is taken for normal
// noise, and each parameter for what is known of its transport (see config.Spread). The
// parameters are the most probable ones (Gauss-Newton from the middle), their intervals
// those of the normal distribution around them (Laplace's approximation). A parameter on
// which no measurement depends stays where it was.
type Calibration struct {
	Points     []CalibrationPoint     `json:"points"`
	Parameters []CalibrationParameter `json:"parameters"`
	Noise      float64                `json:"noise"` // standard deviation of the logarithm
	// LeftOut is the rms of what a fitted point's logarithm is missed by when the others
	// alone are fitted, to first order. Points that alone tell of something do not count;
	// where none is left it is 0.
	LeftOut float64 `json:"left_out_rms"`
	Held    Held    `json:"held_out"`

	base   config.Config
	sigmas []float64 // of the parameters, in standard deviations of what was known
	free   []free
}

// Held is how points that were not fitted are predicted.
type Held struct {
	Points  int     `json:"points"`
	Bias    float64 `json:"bias"` // mean of the logarithms of predicted over measured
	RMS     float64 `json:"rms"`
	Covered int     `json:"covered"` // how many lie in their interval
}

// CalibrationPoint is a measurement beside its prediction. Seconds are of a step or of
// an all-reduce.
type CalibrationPoint struct {
	Where     string  `json:"where"`
	What      string  `json:"what"`
	Fitted    bool    `json:"fitted"`
	Measured  float64 `json:"measured"`
	Before    float64 `json:"before"`             // predicted by what was known before
	Predicted float64 `json:"predicted"`          // by the parameters that were fitted
	Low       float64 `json:"low,omitempty"`      // of points held out: 5 % are below
	High      float64 `json:"high,omitempty"`     // 5 % are above
	LeftOut   float64 `json:"left_out,omitempty"` // predicted when this fitted point is left out, to first order; 0: it alone tells of something

	config config.Config
	bytes  int
	groups [][]int // see Measurement
}

// CalibrationParameter is a key, before and after.
type CalibrationParameter struct {
	Key    string  `json:"key"`
	Before string  `json:"before"`
	After  string  `json:"after"`
	Low    string  `json:"low"`     // 5 % are below
	High   string  `json:"high"`    // 5 % are above
	Told   float64 `json:"learned"` // part of the variance that the points took away: 0 is nothing, 1 all
}

// free is a parameter that is fitted: z standard deviations from what was known.
type free struct {
	spread int    // in the config.Spread of a point; −1: the speed on a profile, or a key that was not said
	of     string // profile; empty: none
	hardware.Parameter
	middle float64
}

// isLink says whether it is a key of the links between hosts that nobody said.
func (x free) isLink() bool { return x.spread < 0 && x.of == "" }

// QuestionOfPoints says what is calibrated: the keys of the command line, which hold for
// all points, and which rows are fitted (1 is the first); none: all.
type QuestionOfPoints struct {
	Keys         []string
	Measurements []Measurement
	Fit          []int
	Places       config.Places
	Show         *progress.Display // may be nil
}

// MostPoints is the largest number of points of a calibration. Each one is simulated some
// hundred times.
const MostPoints = 1000

// Calibrate fits what the points can tell. Its error of points that cannot be is a
// *config.Error.
func Calibrate(ctx context.Context, q QuestionOfPoints) (*Calibration, error) {
	c := &Calibration{}
	if n := len(q.Measurements); n > MostPoints {
		return nil, &config.Error{Err: fmt.Errorf("there are %d points; want at most %d: of repeats give the mean, and of other points a part", n, MostPoints)}
	}
	for i, m := range q.Measurements {
		p, err := point1(m, q.Keys)
		if err != nil {
			return nil, &config.Error{Err: fmt.Errorf("%s: %w", m.Where, err)}
		}
		p.Fitted = len(q.Fit) == 0 || slices.Contains(q.Fit, i+1)
		c.Points = append(c.Points, p)
	}
	for _, row := range q.Fit {
		if row < 1 || row > len(c.Points) {
			return nil, &config.Error{Err: fmt.Errorf("--fit %d: there are points 1 to %d", row, len(c.Points))}
		}
	}
	if err := c.parameters(); err != nil {
		return nil, err
	}
	c.links(q)
	f := &fit{c: c, at: q.Places, show: q.Show}
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// point1 is a measurement as a configuration without weights.
func point1(m Measurement, over []string) (CalibrationPoint, error) {
	p := CalibrationPoint{Where: m.Where, Measured: m.Seconds, bytes: m.Bytes, groups: m.Groups}
	base := "net: sim\nmode: reduce\noverlap: buckets\nsteps: 1\nepochs: 0\ndevice.codec: free\n"
	if m.Bytes > 0 {
		base += "timing: lenet\n"
	}
	r, err := config.ParseRecipe("calibrate", "", []byte(base))
	if err != nil {
		return p, err
	}
	keys := slices.Clone(m.Keys)
	for _, k := range over { // what a row says goes before what holds for all
		name, _, _ := strings.Cut(k, "=")
		if !slices.ContainsFunc(m.Keys, func(own string) bool { return strings.HasPrefix(own, name+"=") }) {
			keys = append(keys, k)
		}
	}
	runs, err := r.Runs(keys, false)
	if err != nil {
		return p, err
	}
	if len(runs) != 1 {
		return p, errors.New("a point has one value of each key")
	}
	p.config = bare(runs[0].Config)
	c := p.config
	if m.Bytes > 0 {
		p.What = fmt.Sprintf("all-reduce of %d bytes, %d ranks", m.Bytes, c.Workers)
		if n := len(m.Groups); n > 0 {
			p.What = fmt.Sprintf("all-reduce of %d bytes, %d ranks, in each of %d groups", m.Bytes, len(m.Groups[0]), n)
		}
		return p, nil
	}
	network, err := config.ProfileOf(c.Timing)
	if err != nil {
		return p, fmt.Errorf("say which network it is, as model=resnet50, or model=runs/… of a run, in a column or on the command line: %w", err)
	}
	p.What = fmt.Sprintf("%s, %d workers, batch %d, %s", network.Name, c.Workers, c.Batch, c.Codec)
	if m.Rate > 0 {
		p.Measured = float64(c.Workers*c.Batch) / m.Rate
	}
	return p, nil
}

// parameters are those of the transport and node, which all points share, and a speed of the
// device on each network.
func (c *Calibration) parameters() error {
	if len(c.Points) == 0 {
		return errors.New("no points")
	}
	c.base = c.Points[0].config
	s, err := spreadOf(c.base)
	if err != nil {
		return err
	}
	for i, p := range s.Parameters() {
		if p.Key != "device.flops" {
			c.free = append(c.free, free{spread: i, Parameter: p, middle: s.Middle(i)})
		}
	}
	for _, p := range c.Points {
		if p.config.Transport != c.base.Transport {
			return &config.Error{Err: fmt.Errorf("%s: transport=%s, of %s it is %s; calibrate one transport at a time", p.Where, p.config.Transport, c.Points[0].Where, c.base.Transport)}
		}
		if p.config.Node != c.base.Node {
			return &config.Error{Err: fmt.Errorf("%s: node=%s, of %s it is %s; calibrate one node at a time", p.Where, p.config.Node, c.Points[0].Where, c.base.Node)}
		}
		if p.bytes > 0 || slices.ContainsFunc(c.free, func(f free) bool { return f.of == p.config.Timing }) {
			continue
		}
		flops, times := speedOf(p.config)
		c.free = append(c.free, free{spread: -1, of: p.config.Timing, Parameter: hardware.Parameter{Key: "device.flops", Times: times}, middle: flops})
	}
	return nil
}

// links adds what nobody said of the links between hosts, if points tell it: they may be
// anything then, as devices may.
func (c *Calibration) links(q QuestionOfPoints) {
	said := func(key string) bool {
		is := func(k string) bool { return strings.HasPrefix(k, key+"=") }
		return c.base.Get(key) != config.Default().Get(key) || slices.ContainsFunc(q.Keys, is) ||
			slices.ContainsFunc(q.Measurements, func(m Measurement) bool { return slices.ContainsFunc(m.Keys, is) }) ||
			slices.ContainsFunc(c.free, func(x free) bool { return x.Key == key })
	}
	if !slices.ContainsFunc(c.Points, func(p CalibrationPoint) bool { return p.Fitted && p.config.Workers > p.config.NetworkPerHost }) {
		return
	}
	if !said("network.bandwidth") {
		c.free = append(c.free, free{spread: -1, Parameter: hardware.Parameter{Key: "network.bandwidth", Times: 30}, middle: c.base.NetworkBandwidth})
	}
	if d, err := time.ParseDuration(c.base.NetworkLatency); err == nil && !said("network.latency") {
		c.free = append(c.free, free{spread: -1, Parameter: hardware.Parameter{Key: "network.latency", Times: 10}, middle: d.Seconds()})
	}
}

// speedOf is the speed of a configuration's device, and how well it is known: what a
// device was measured at holds for other sites about to 15 %; what is not said may be
// anything.
func speedOf(c config.Config) (flops, times float64) {
	if c.Device != "none" {
		if d, err := hardware.Load(hardware.Device, c.Device); err == nil {
			if network, err := config.ProfileOf(c.Timing); err == nil {
				flops, known := d.FLOPS(network)
				if known {
					return flops, 1.15
				}
				return flops, 1.5
			}
		}
	}
	if c.DeviceFLOPS != config.Default().DeviceFLOPS {
		return c.DeviceFLOPS, 1.3
	}
	return c.DeviceFLOPS, anything
}

// anything is the spread of a speed of which nothing is known: a factor of 1,000 in one
// standard deviation.
const anything = 1000

// fit looks for the most probable parameters.
type fit struct {
	c    *Calibration
	at   config.Places
	show *progress.Display
	turn int
}

// predicted are the logarithms of the fitted points' times with parameters at z, or of all
// points'.
func (f *fit) predicted(ctx context.Context, z []float64, held bool) ([]float64, error) {
	out, errs := make([]float64, len(f.c.Points)), make([]error, len(f.c.Points))
	next := make(chan int)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range next {
				out[i], errs[i] = f.one(ctx, &f.c.Points[i], z)
			}
		})
	}
	for i, p := range f.c.Points {
		if held || p.Fitted {
			next <- i
		}
	}
	close(next)
	all.Wait()
	return out, errors.Join(errs...)
}

func (f *fit) one(ctx context.Context, p *CalibrationPoint, z []float64) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	s, err := spreadOf(p.config)
	if err != nil {
		return 0, err
	}
	quantiles := slices.Repeat([]float64{0.5}, s.Len())
	speed, links := 0.0, [][2]string{}
	for i, x := range f.c.free {
		switch {
		case x.spread >= 0:
			quantiles[x.spread] = phi(z[i])
		case x.isLink():
			links = append(links, [2]string{x.Key, x.text(z[i])})
		case x.of == p.config.Timing:
			speed = x.middle * math.Exp(z[i]*math.Log(x.Times))
		}
	}
	c, _, err := s.Draw(quantiles)
	for _, l := range links {
		err = errors.Join(err, c.Set(l[0], l[1]))
	}
	if err != nil {
		return 0, err
	}
	if p.bytes > 0 {
		t, err := allReduceTakes(ctx, c, p.bytes, p.groups)
		return math.Log(t), err
	}
	c.Device, c.DeviceFLOPS = "none", speed
	steps := 4
	if c.DeviceLaw != "constant" && c.Workers > 1 {
		steps = max(6, min(24, 256/c.Workers))
	}
	t, err := Blended(ctx, c, func(ctx context.Context, c config.Config) (float64, error) {
		return updateTakes(ctx, c, 1, steps, Watch{Places: f.at})
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.Where, err)
	}
	return math.Log(t), nil
}

// phi is the distribution function of a standard normal variable, inside (0, 1).
func phi(z float64) float64 { return min(max(0.5*math.Erfc(-z/math.Sqrt2), 1e-9), 1-1e-9) }

// allReduceTakes is how long the virtual cluster takes to sum a vector over all ranks, or
// one in each group of them at once.
func allReduceTakes(ctx context.Context, c config.Config, bytes int, groups [][]int) (float64, error) {
	of, err := c.Resolve()
	if err != nil {
		return 0, err
	}
	net, err := of.VirtualNet(0, 0)
	if err != nil {
		return 0, err
	}
	node, perHost := c.NetworkPerHost, max(c.NetworkPerHost, 1)
	if len(groups) == 0 {
		ranks := make([]int, c.Workers)
		for r := range ranks {
			ranks[r] = r
		}
		groups = [][]int{ranks}
	} else {
		node = 0 // ranks of a group that share a host
		for _, r := range groups[0] {
			if r/perHost == groups[0][0]/perHost {
				node++
			}
		}
	}
	const times = 3
	programs := make([]comm.Program, c.Workers)
	for _, ranks := range groups {
		for me, r := range ranks {
			programs[r] = func(ctx context.Context, h comm.Host) error {
				for range times {
					g := collective.Group{Ranks: ranks, Me: me, Node: node}
					if _, err := collective.Rehearse(ctx, h, g, of.Topology(), comm.Header{Tag: 1}, max(bytes/4, 1), 4); err != nil {
						return err
					}
				}
				return nil
			}
		}
	}
	if err := net.Run(ctx, programs); err != nil {
		return 0, err
	}
	return net.Now().Seconds()/times + c.Constants.Call.Seconds()*math.Log2(float64(len(groups[0]))), nil
}

// run fits the parameters, then the noise, in turns, and notes what came out.
func (f *fit) run(ctx context.Context) error {
	c := f.c
	z := make([]float64, len(c.free))
	before, err := f.predicted(ctx, z, true)
	if err != nil {
		return err
	}
	c.Noise = 0.05
	now := before
	var j *mat.Dense
	var cov *mat.SymDense
	for turn := range 12 {
		if j, err = f.slopes(ctx, z, now, false); err != nil {
			return err
		}
		if cov, err = f.covariance(j); err != nil {
			return err
		}
		step := f.step(j, cov, z, now)
		moved := 0.0
		better := false
		for try := 0; try < 6 && !better; try++ { // a step that is too long is halved
			next := slices.Clone(z)
			for i := range next {
				next[i] += step[i] * math.Pow(0.5, float64(try))
			}
			then, err := f.predicted(ctx, next, false)
			if err != nil {
				return err
			}
			if better = f.cost(next, then) <= f.cost(z, now); better {
				for i := range z {
					moved = max(moved, math.Abs(next[i]-z[i]))
				}
				z, now = next, then
			}
		}
		was := c.Noise
		c.Noise = f.noise(cov, now)
		if turn > 0 && (!better || moved < 0.01) && math.Abs(c.Noise/was-1) < 0.1 {
			break
		}
	}
	if now, err = f.predicted(ctx, z, true); err != nil {
		return err
	}
	if j, err = f.slopes(ctx, z, now, true); err != nil {
		return err
	}
	if cov, err = f.covariance(j); err != nil {
		return err
	}
	f.note(z, before, now, j, cov)
	return nil
}

// slopes are the derivatives of predictions by parameters, from differences that are
// large beside the corners of the virtual cluster's times.
func (f *fit) slopes(ctx context.Context, z, now []float64, held bool) (*mat.Dense, error) {
	j := mat.NewDense(len(now), len(z), nil)
	f.turn++
	for i, x := range f.c.free {
		d := 0.2
		if x.spread < 0 {
			d = 0.05 / math.Log(x.Times)
		}
		if z[i] > 0 {
			d = -d
		}
		there := slices.Clone(z)
		there[i] += d
		then, err := f.predicted(ctx, there, held)
		if err != nil {
			return nil, err
		}
		f.show.Count(fmt.Sprintf("fitting, turn %d", f.turn), "parameters", int64(i+1), int64(len(z)))
		for k := range now {
			j.Set(k, i, (then[k]-now[k])/d)
		}
	}
	return j, nil
}

// covariance is that of z when the fitted points are known.
func (f *fit) covariance(j *mat.Dense) (*mat.SymDense, error) {
	n := len(f.c.free)
	a := mat.NewSymDense(n, nil)
	for i := range n {
		a.SetSym(i, i, 1)
	}
	for k, p := range f.c.Points {
		if p.Fitted {
			a.SymRankOne(a, 1/(f.c.Noise*f.c.Noise), j.RowView(k))
		}
	}
	var ch mat.Cholesky
	if !ch.Factorize(a) {
		return nil, errors.New("the points' times depend on parameters without bound")
	}
	var cov mat.SymDense
	if err := ch.InverseTo(&cov); err != nil {
		return nil, err
	}
	return &cov, nil
}

// step is Newton's.
func (f *fit) step(j *mat.Dense, cov *mat.SymDense, z, now []float64) []float64 {
	g := mat.NewVecDense(len(z), nil)
	for i := range z {
		g.SetVec(i, -z[i])
	}
	for k, p := range f.c.Points {
		if p.Fitted {
			g.AddScaledVec(g, (math.Log(p.Measured)-now[k])/(f.c.Noise*f.c.Noise), j.RowView(k))
		}
	}
	var out mat.VecDense
	out.MulVec(cov, g)
	return out.RawVector().Data
}

// cost is twice the negative logarithm of the probability, but for a constant.
func (f *fit) cost(z, now []float64) (sum float64) {
	for _, x := range z {
		sum += x * x
	}
	for k, p := range f.c.Points {
		if p.Fitted {
			r := (math.Log(p.Measured) - now[k]) / f.c.Noise
			sum += r * r
		}
	}
	return sum
}

// noise is the residuals' standard deviation, with as many degrees of freedom less as
// the points have told of parameters; between 1 and 30 %.
func (f *fit) noise(cov *mat.SymDense, now []float64) float64 {
	sum, n := 0.0, 0.0
	for k, p := range f.c.Points {
		if p.Fitted {
			r := math.Log(p.Measured) - now[k]
			sum, n = sum+r*r, n+1
		}
	}
	for i := range f.c.free {
		n -= 1 - cov.At(i, i)
	}
	// As if one more point had been missed by what frameworks differ by.
	const usual = 0.03
	return min(max(math.Sqrt((sum+usual*usual)/(max(n, 0)+1)), 0.01), 0.3)
}

// note writes down what came out.
func (f *fit) note(z, before, now []float64, j *mat.Dense, cov *mat.SymDense) {
	c := f.c
	fitted := 0
	for k := range c.Points {
		p := &c.Points[k]
		p.Before, p.Predicted = math.Exp(before[k]), math.Exp(now[k])
		var v mat.VecDense
		v.MulVec(cov, j.RowView(k))
		own := mat.Dot(j.RowView(k), &v)
		r := now[k] - math.Log(p.Measured)
		if p.Fitted {
			// A point of leverage 1 tells alone of a parameter: the others do not predict it.
			if rest := 1 - own/(c.Noise*c.Noise); rest >= 0.01 {
				left := r / rest
				p.LeftOut = p.Measured * math.Exp(left)
				c.LeftOut += left * left
				fitted++
			}
			continue
		}
		w := 1.6449 * math.Sqrt(own+c.Noise*c.Noise)
		p.Low, p.High = p.Predicted*math.Exp(-w), p.Predicted*math.Exp(w)
		c.Held.Points++
		c.Held.Bias += r
		c.Held.RMS += r * r
		if p.Low <= p.Measured && p.Measured <= p.High {
			c.Held.Covered++
		}
	}
	c.LeftOut = math.Sqrt(c.LeftOut / max(float64(fitted), 1))
	if n := float64(c.Held.Points); n > 0 {
		c.Held.Bias, c.Held.RMS = c.Held.Bias/n, math.Sqrt(c.Held.RMS/n)
	}
	for i := range c.free {
		x, sd := &c.free[i], math.Sqrt(cov.At(i, i))
		at := func(z float64) string { return x.text(z) }
		name := x.Key
		if x.of != "" {
			name = "device.flops on " + x.of
		}
		c.Parameters = append(c.Parameters, CalibrationParameter{
			Key: name, Before: at(0), After: at(z[i]), Low: at(z[i] - 1.6449*sd), High: at(z[i] + 1.6449*sd), Told: 1 - cov.At(i, i),
		})
		x.middle = x.at(z[i])
		c.sigmas = append(c.sigmas, sd)
	}
}

// at is the parameter's value z standard deviations from its middle.
func (x *free) at(z float64) float64 {
	if x.Times > 0 {
		return x.middle * math.Exp(z*math.Log(x.Times))
	}
	return x.middle + z*x.Plus
}

func (x *free) text(z float64) string { return config.WithUnit(x.Key, x.at(z)) }
