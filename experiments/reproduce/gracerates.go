package reproduce

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/sgd/profile"
)

//go:embed measured/grace-throughput.csv
var graceFile string

// graceRow is a measurement of GRACE: samples a second of all workers, or bytes of a worker
// and step where mode is data-volume.
type graceRow struct {
	model, mode, method, backend string
	workers, link                int // link: Gb/s
	value                        float64
}

// What GRACE measured: a run as it is; one without the time of its codec; what it sends.
const (
	graceWhole = "throughput"
	graceFree  = "upper-bound"
	graceSent  = "data-volume"
)

// readGRACE reads the file of measurements.
func readGRACE() ([]graceRow, error) {
	lines, err := csv.NewReader(strings.NewReader(graceFile)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("measured/grace-throughput.csv: %w", err)
	}
	var rows []graceRow
	for _, l := range lines[1:] {
		r := graceRow{model: l[0], mode: l[1], method: l[2], backend: l[5]}
		var errs [3]error
		r.workers, errs[0] = strconv.Atoi(l[3])
		r.link, errs[1] = strconv.Atoi(strings.TrimSuffix(l[4], "g"))
		r.value, errs[2] = strconv.ParseFloat(l[6], 64)
		for _, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("measured/grace-throughput.csv: row %q: %w", l, err)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// graceWay is how GRACE exchanges what a method makes of a gradient.
type graceWay struct {
	sums  bool // all-reduced in buckets; else all-gathered, tensor by tensor
	calls int  // of a tensor: values, indices, scales
}

// graceWays are those of all methods, by the first word of their names.
var graceWays = map[string]graceWay{
	"none": {sums: true}, "randomk": {sums: true}, "powersgd": {sums: true},
	"signsgd": {calls: 1}, "signum": {calls: 1}, "natural": {calls: 1},
	"8bit": {calls: 2}, "dgc": {calls: 2}, "efsignsgd": {calls: 2}, "inceptionn": {calls: 2}, "qsgd": {calls: 2}, "sketch": {calls: 2},
	"terngrad": {calls: 2}, "threshold": {calls: 2}, "topk": {calls: 2},
	"adaq": {calls: 3}, "onebit": {calls: 3},
}

// kind is the first word of a method's name, which has its settings behind it.
func (r graceRow) kind() string {
	if i := strings.IndexAny(r.method, "+=_"); i >= 0 {
		return r.method[:i]
	}
	return r.method
}

// setting is a method's name without whether it keeps a residual.
func (r graceRow) setting() string { return strings.Replace(r.method, "+mem", "", 1) }

// graceLab is what is known of GRACE's measurements and networks.
type graceLab struct {
	rows []graceRow
	nets map[string]graceNet
	fit  []int // workers of the sizes that codecs' times are fitted to: one, or two of them
}

// graceNet is a network of GRACE, and its rate alone.
type graceNet struct {
	*profile.Profile
	batch int     // of a worker
	alone float64 // samples a second of one worker without a codec
}

// graceNets are the networks that are predicted, and ResNet-20, whose codecs tell what
// a tensor costs beside its values.
var graceNets = []struct {
	model, profile string
	batch          int
}{{"resnet50", "resnet50", 128}, {"resnet20_v2", "resnet20", 256}, {"densenet40_k12", "densenet40", 256}, {"unet", "unet_tiny", 2}}

func newGRACELab(fit []int) (*graceLab, error) {
	rows, err := readGRACE()
	if err != nil {
		return nil, err
	}
	g := &graceLab{rows: rows, nets: map[string]graceNet{}, fit: fit}
	for _, n := range graceNets {
		alone := g.find(n.model, graceWhole, 1, func(r graceRow) bool { return r.method == "none" })
		if alone == 0 {
			return nil, fmt.Errorf("measured/grace-throughput.csv: no rate of %s on one worker", n.model)
		}
		g.nets[n.model] = graceNet{profile.Profiles.MustParse(n.profile).Profile(), n.batch, alone}
	}
	return g, nil
}

// find is the first measurement over MPI at 10 Gb/s, or of bytes at any link; 0: none.
func (g *graceLab) find(model, mode string, workers int, is func(graceRow) bool) float64 {
	for _, r := range g.rows {
		if r.model == model && r.mode == mode && (mode == graceSent || r.workers == workers && r.link == 10 && r.backend == "mpi") && is(r) {
			return r.value
		}
	}
	return 0
}

// sent is how many bytes a worker sends in a step; 0: it is not known.
func (g *graceLab) sent(r graceRow) float64 {
	if r.method == "none" {
		return float64(g.nets[r.model].Bytes())
	}
	if n := g.find(r.model, graceSent, 0, func(o graceRow) bool { return o.method == r.method }); n > 0 {
		return n
	}
	return g.find(r.model, graceSent, 0, func(o graceRow) bool { return o.setting() == r.setting() })
}

// coding is how many seconds a codec takes in a step on so many workers: what it takes
// longer than without its codec's time. It is that of the setting all were measured at.
func (g *graceLab) coding(model, kind string, workers int) float64 {
	is := func(r graceRow) bool { return r.kind() == kind }
	whole, free := g.find(model, graceWhole, workers, is), g.find(model, graceFree, workers, is)
	if whole == 0 || free == 0 {
		return 0
	}
	samples := float64(workers * g.nets[model].batch)
	return max(0, samples/whole-samples/free)
}

// graceCost is what a codec takes on one worker: seconds of encoding a tensor and a
// value, and of decoding a payload as a part of encoding it.
type graceCost struct{ tensor, value, decode float64 }

// cost is that of ResNet-50 where the network is ResNet-50, and else what ResNet-50's
// codecs and ResNet-20's have in common, on the fewest workers that are fitted. Decoding
// is what codecs take longer on the most workers that are; with one size it is nothing.
func (g *graceLab) cost(model, kind string) (c graceCost) {
	few, most := g.fit[0], g.fit[len(g.fit)-1]
	two := g.coding("resnet50", kind, few)
	if two == 0 {
		return c
	}
	// E(1+mρ) over E(1+fρ) is grown, below m/f. Of a few milliseconds it would be noise.
	limit := float64(most) / float64(few)
	if grown := g.coding("resnet50", kind, most) / two; !graceWays[kind].sums && two > 0.01 && grown > 1 && grown < 0.95*limit {
		c.decode = (grown - 1) / (float64(most) - float64(few)*grown)
	}
	encode := func(total float64) float64 { return total / (1 + float64(few)*c.decode) }
	big, small := g.nets["resnet50"], g.nets["resnet20_v2"]
	if c.value = encode(two) / float64(big.Parameters()); model == "resnet50" {
		return c
	}
	// tensors·t + values·v is what each takes, neither below 0.
	m, n := float64(len(big.Layout.Spans)), float64(big.Parameters())
	k, l := float64(len(small.Layout.Spans)), float64(small.Parameters())
	x, y := encode(two), encode(g.coding("resnet20_v2", kind, few))
	c.tensor, c.value = (y*n-x*l)/(k*n-m*l), (x*k-y*m)/(k*n-m*l)
	switch {
	case c.tensor < 0:
		c.tensor, c.value = 0, x/n
	case c.value < 0:
		c.tensor, c.value = math.Min(x/m, y/k), 0
	}
	return c
}

// standIn is the codec whose payloads have as many bytes as the method's.
func (g *graceLab) standIn(r graceRow) string {
	values := float64(g.nets[r.model].Parameters())
	switch way := graceWays[r.kind()]; {
	case r.method == "none":
		return "raw"
	case way.sums:
		return fmt.Sprintf("randomk(keep=%.6g)", math.Min(1, g.sent(r)/4/values))
	}
	return fmt.Sprintf("topk(keep=%.6g,index=raw32)", math.Min(1, g.sent(r)/8/values))
}

// unjudged says why a measurement proves nothing of a prediction; "": it does.
func (g *graceLab) unjudged(r graceRow) string {
	switch kind := r.kind(); {
	case r.link == 1:
		return "some of these rows move more than 1 Gb/s over the whole step: the link was not what it says"
	case kind == "threshold":
		return "what it sends changes as the network learns"
	case (kind == "dgc" || kind == "adaq") && r.method != kind+"+mem=0.01":
		return "its codec takes another time at another setting"
	case r.model == "unet":
		return "two workers that send 1 % take 1.6 to 2 times as long as one alone: something is missing that is not a transport"
	}
	return ""
}
