package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Band is how far predicted steps are from simulated ones: nine out of ten on
// configurations nothing was chosen by lie within this share, below or above.
// Study advisor computes it again.
const Band = 0.10

// Option is one way to train.
type Option struct {
	places    config.Places
	frames    float64       // that all workers send in a step, with overlap and without
	Config    config.Config // can be run: without weights, on the virtual cluster
	Step      float64       // predicted seconds
	Sent      float64       // bytes a worker sends in a step
	Simulated float64       // seconds of a step on the virtual cluster; NaN if it was not asked
	Updates   float64       // to the accuracy, in units of those without a codec, the middle of what is believed; NaN without evidence
	Coding    float64       // seconds of Step in which the codec encodes and decodes on a worker; 0 where it is not counted
}

// Time is what the option takes, as far as is known.
func (o *Option) Time() float64 {
	if !math.IsNaN(o.Simulated) {
		return o.Simulated
	}
	return o.Step
}

// Compressed reports whether the option uses a codec at all.
func (o *Option) Compressed() bool { return o.Config.Codec != "raw" }

// How words the option without its codec: "ring, fused to 4 MiB, first layers
// first", "4 servers, all at once".
func (o *Option) How() string {
	c := o.Config
	way := c.Topology
	name, _, _ := strings.Cut(c.Mode, "(")
	switch {
	case name == "localsgd":
		return way + ", " + c.Mode
	case name != "reduce" && name != "server":
		if m, err := train.Modes.Parse(c.Mode); err == nil && m.Traits(&train.Job{Mode: m, Workers: c.Workers, Servers: c.Servers, Policy: staleness.BSP{}}).Servers > 0 {
			return fmt.Sprintf("%d servers, %s", c.Servers, c.Mode)
		}
		return "graph " + c.Graph + ", " + c.Mode
	case c.Mode == "server" && o.Way() != learnsAs(c.Codec):
		return fmt.Sprintf("%d servers, %s", c.Servers, c.Policy)
	case c.Mode == "server" && c.Servers == 1:
		way = "1 server"
	case c.Mode == "server":
		way = fmt.Sprintf("%d servers", c.Servers)
	case gathered(c.Codec, c.Workers):
		way = "gather"
	}
	plan := planOf(c)
	if !plan.Beside {
		return way + ", all at once"
	}
	way = fmt.Sprintf("%s, fused to %d MiB", way, plan.Bytes>>20)
	if plan.First {
		way += ", first layers first"
	}
	return way
}

// planOf is how a configuration overlaps.
func planOf(c config.Config) train.Plan { return train.Overlaps.MustParse(c.Overlap).Plan() }

// inBuckets is key overlap with buckets of so many bytes; of 0: none.
func inBuckets(bytes int) string {
	if bytes == 0 {
		return "none"
	}
	return train.Overlaps.Spec(train.Buckets{Bytes: bytes})
}

// gathered reports whether payloads of a codec cannot be summed on their way.
func gathered(codec string, workers int) bool {
	f, err := compress.Parse(codec)
	if err != nil {
		return false
	}
	_, road, err := compress.NewExchange(f, compress.Block{Name: "x", Role: "weight", Rows: 64, Cols: 64, World: workers, Peer: -1, Seed: 1})
	return err == nil && road == compress.RoadGather
}

// Options prices every combination, the shortest step first. Of equals, the one
// that is simpler comes first: without a codec, without fusion.
func (q *Question) Options(ctx context.Context) ([]*Option, error) {
	of, err := q.Base.Resolve()
	if err != nil {
		return nil, err
	}
	stated := of.CodecsStated() // what the table lacks is left out, not measured on this machine
	p, err := newPricer(q)
	if err != nil {
		return nil, err
	}
	var out []*Option
	price := func(configs []config.Config, step func(config.Config) (float64, float64, error)) error {
		for _, c := range configs {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.frames = 0
			step, sent, err := step(c)
			if err != nil {
				return err
			}
			out = append(out, &Option{places: q.Places, frames: p.frames, Config: c, Step: step, Sent: sent, Simulated: math.NaN(), Updates: math.NaN(), Coding: p.codes(c)})
		}
		return nil
	}
	q.LeftOut = nil
	for _, codec := range q.Codecs {
		codec = config.Canonical("codec", codec)
		if stated && !q.rated(codec) {
			q.LeftOut = append(q.LeftOut, fmt.Sprintf("%s: device.codec=%s does not say how long it takes; gradlab bench codecs --out FILE.yaml writes a table that does, and device.codec=free bills nothing", codec, q.Base.DeviceCodec))
			continue
		}
		if err := price(q.configs(codec), p.step); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil && codec == "raw" {
			return nil, err
		} else if err != nil {
			q.LeftOut = append(q.LeftOut, fmt.Sprintf("%s: %s%s", codec, strings.TrimPrefix(err.Error(), "codec "+codec+": "), p.fixed(codec)))
		}
	}
	if q.Modes {
		for _, c := range q.modes() {
			err := price([]config.Config{c}, func(c config.Config) (float64, float64, error) { return p.other(ctx, c) })
			if ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err != nil {
				q.LeftOut = append(q.LeftOut, fmt.Sprintf("%s: %v", c.Mode, err))
			}
		}
	}
	if err := p.prices.Err(); err != nil {
		return nil, err
	}
	q.CodecTime = p.prices.String()
	slices.SortStableFunc(out, func(a, b *Option) int { return cmp.Compare(a.Step, b.Step) })
	return out, nil
}

// innermost are the options of a codec that holds no other.
var innermost = regexp.MustCompile(`(\w+)(\([^()]*\))?`)

// fixed names the codec that sends the same entries at a size that does not depend on the
// data, as words behind a reason; "": there is none.
func (p *pricer) fixed(codec string) string {
	for _, at := range innermost.FindAllStringIndex(codec, -1) {
		part, rest := codec[at[0]:at[1]], codec[at[1]:]
		if strings.HasSuffix(part, ")") {
			part = strings.TrimSuffix(part, ")") + ",index=raw32)"
		} else {
			part += "(index=raw32)"
		}
		text := codec[:at[0]] + part + rest
		f, err := compress.Parse(text)
		if err != nil {
			continue
		}
		s := p.job.Model.Layout().Spans[0]
		b := compress.Block{Name: s.Name, Role: s.Role.String(), Rows: s.Rows, Cols: s.Cols, World: p.job.Workers, Peer: -1, Seed: 1}
		if claims, ok := compress.ClaimsOf(f, b); ok && claims.Exact {
			return fmt.Sprintf("; codec=%s sends the same entries at a fixed size", config.Canonical("codec", text))
		}
	}
	return ""
}

// rated says whether device.codec has rates for a codec; so it may for one that cannot be
// priced for another reason.
func (q *Question) rated(codec string) bool {
	raw := hardware.CodecRate{Codec: "raw", Block: coding.Any} // is not asked about
	raw.Add(1, 0, 0)
	there := *q
	there.Places.Codecs = nil
	there.Places.Rates = &coding.Record{Key: q.Base.DeviceCodec, Tables: []*hardware.CodecTable{{Name: "raw", Rates: []hardware.CodecRate{raw}}}}
	p, err := newPricer(&there)
	if err == nil {
		_, err = p.of(codec)
	}
	return err != nil || p.prices.Err() == nil
}

// configs are the ways to use a codec.
func (q *Question) configs(codec string) (out []config.Config) {
	c := q.Base
	c.Codec = codec
	gather := gathered(codec, c.Workers)
	topologies := q.Topologies
	if gather {
		topologies = topologies[:1] // which one does not matter
	}
	for _, bucket := range q.Buckets {
		for _, t := range topologies {
			r := c
			r.Mode, r.Topology, r.Overlap = "reduce", t, inBuckets(bucket)
			out = append(out, r)
			if bucket > 0 {
				r.Overlap = train.Overlaps.Spec(train.Priority{Bytes: bucket})
				out = append(out, r)
			}
		}
	}
	for _, s := range q.Servers {
		r := c
		r.Mode, r.Policy, r.Servers, r.Placement = "server", "bsp", s, "balanced"
		for _, bucket := range q.Buckets {
			r.Overlap = inBuckets(bucket)
			out = append(out, r)
		}
	}
	return out
}

// Simulable says whether the virtual cluster runs the option without weights, and
// its updates are steps.
func (o *Option) Simulable() bool { return o.rank() < 4 }

// Quick says whether the virtual cluster runs the option within seconds: each frame takes
// it some two microseconds.
func (o *Option) Quick() bool { return o.frames*float64(o.Config.Steps) < 3e6 }

// Simulate runs the option on the virtual cluster and notes how long a step
// takes once it has come into its stride. Options that are not Simulable, or not Quick,
// stay as they are predicted.
func (o *Option) Simulate(ctx context.Context) (err error) {
	if o.Simulable() && o.Quick() {
		o.Simulated, err = ask.Blended(ctx, o.Config, o.steps)
	}
	return err
}

// steps is the time of a step of a configuration like the option's.
func (o *Option) steps(ctx context.Context, c config.Config) (float64, error) {
	m, err := ask.Measure(ctx, c, ask.Watch{Places: o.places})
	if err != nil {
		return 0, err
	}
	const warm = 2
	return 1 / m.Rate(warm, 1), nil
}

// Alone is how long one worker alone takes for as many samples as the option's workers have
// in a step: as many steps of its own as there are workers, with nothing sent. ok is false
// where there is none to measure against (see config.Config.Alone).
func (o *Option) Alone(ctx context.Context) (seconds float64, ok bool, err error) {
	c, ok := o.Config.Alone()
	if !ok {
		return 0, false, nil
	}
	c.Steps = o.Config.Steps
	step, err := o.steps(ctx, c)
	return step * float64(o.Config.Workers), true, err
}

// Framework is the table of codecs' rates that were measured as operations of a framework,
// not as kernels made for the purpose.
const Framework = "v100-grace"

// Slower is how much longer a worker's codec would take in a step at the rates of a table
// of codecs (see hardware.LoadCodecs), in seconds; 0 where the table does not have it, or
// ranks do not sum gradients themselves.
func (q *Question) Slower(o *Option, table string) (float64, error) {
	there := *q
	there.Base.DeviceCodec, there.Places.Rates, there.Places.Codecs = table, nil, nil
	p, err := newPricer(&there)
	if err != nil {
		return 0, err
	}
	if _, err := p.of(o.Config.Codec); err != nil {
		return 0, err
	}
	if p.prices.Err() != nil || o.Coding == 0 {
		return 0, nil
	}
	return max(0, p.codes(o.Config)-o.Coding), nil
}
