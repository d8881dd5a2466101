package config

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/portable"
)

// Spread is what is not known exactly of a configuration's times: parameters, each
// around a middle, and a factor on all of it.
type Spread struct {
	Transport *hardware.Sheet
	Node      *hardware.Sheet // nil: how devices of a host reach each other is taken as exact, or no matter
	of        Config
	keys      []spread
	site      float64
	codec     *codecSpread // nil: how long codecs take is taken as exact
}

// codecSpread is how well a table of codecs' rates is known.
type codecSpread struct {
	of    codecTime // with its factor
	times float64
}

// spread is a parameter around a middle, in the unit of its key: seconds of durations.
type spread struct {
	hardware.Parameter
	key    Key
	middle float64
}

// idealTransport is the transport of software that takes nothing.
const idealTransport = "ideal"

// Spread is that of the configuration's transport and node. A known cluster that names no
// transport is drawn from hardware.Unknown. Where the cluster says how well it knows a key,
// or its site, that counts. A parameter's middle is the configuration's own value, but that
// of unknown where a known cluster leaves a key at its default. Of a node varies only what
// nobody said.
func (r *Resolved) Spread() (*Spread, error) {
	c := r.config
	name := c.Transport
	leftOpen := name == idealTransport && c.Cluster != "none"
	if leftOpen {
		name = hardware.Unknown
	}
	t, err := hardware.Load(hardware.Transport, name)
	if err != nil {
		return nil, err
	}
	known, site := c.knows()
	s := &Spread{Transport: t, of: c, site: t.Site}
	if site > 0 {
		s.site = site
	}
	if c.Device != "none" {
		d, err := hardware.Load(hardware.Device, c.Device)
		if err != nil {
			return nil, err
		}
		s.site = math.Sqrt(float64(s.site*s.site) + float64(d.Site*d.Site))
	}
	def := Default()
	unknown := func(p hardware.Parameter) bool { // to the cluster
		return !slices.ContainsFunc(known, func(k hardware.Parameter) bool { return k.Key == p.Key })
	}
	for _, p := range t.Spread() {
		if unknown(p) {
			if err := s.vary(p, leftOpen && c.Get(p.Key) == def.Get(p.Key)); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range known {
		if err := s.vary(p, false); err != nil {
			return nil, err
		}
	}
	node, keys, err := unsaid(c)
	if err != nil {
		return nil, err
	}
	for _, p := range keys {
		if unknown(p) {
			s.Node = node
			if err := s.vary(p, true); err != nil {
				return nil, err
			}
		}
	}
	s.codec = r.codecSpread()
	return s, nil
}

// vary adds a parameter, around its own value or around the configuration's.
func (s *Spread) vary(p hardware.Parameter, own bool) error {
	k, ok := findSetting(p.Key)
	if !ok {
		return UnknownKey(p.Key)
	}
	if s.of.Get(p.Key) == "" { // the sigma of a law that has none
		return nil
	}
	middle := s.of
	if own {
		if err := middle.Set(p.Key, p.Value); err != nil {
			return err
		}
	}
	s.keys = append(s.keys, spread{p, k, middle.number(k)})
	return nil
}

// unsaid is what only the configuration's node says of how its devices reach each other, or
// hardware.Unknown where there are several on a host and nobody said anything.
func unsaid(c Config) (*hardware.Sheet, []hardware.Parameter, error) {
	as := Default()
	name, alone := c.Node, c.NetworkPerHost == 1
	if name == "none" {
		if alone || c.NetworkInside != as.NetworkInside || c.Constants.Bridge != as.Constants.Bridge {
			return nil, nil, nil
		}
		name = hardware.Unknown
	}
	node, err := hardware.Load(hardware.Node, name)
	if err != nil {
		return nil, nil, err
	}
	if err := as.Set("node", c.Node); err != nil {
		return nil, nil, err
	}
	var out []hardware.Parameter
	for _, p := range node.Spread() {
		if c.Get(p.Key) == as.Get(p.Key) && !(alone && (p.Key == "network.inside" || p.Key == "constants.bridge")) {
			out = append(out, p)
		}
	}
	return node, out, nil
}

// codecSpread is that of the table that device.codec names, nil if it has none.
func (r *Resolved) codecSpread() *codecSpread {
	t := value[codecTime](r, "device.codec")
	if !r.config.OnNet().Virtual || t.rate > 0 || t.table == CodecsFree || t.table == codecsHere {
		return nil
	}
	if t.table == codecsMeasured {
		t.table = coding.Default
	}
	table, err := coding.Load(t.table)
	if err != nil || table.Spread == 0 {
		return nil // a file that is gone: whoever prices codecs says so, or has its rates
	}
	speed, _ := codecSpeed(r.config, t)
	t.times = speed.Over(table)
	return &codecSpread{t, table.Spread}
}

// Parameters are the keys that vary, and Middle where the i-th one does.
func (s *Spread) Parameters() (out []hardware.Parameter) {
	for _, k := range s.keys {
		out = append(out, k.Parameter)
	}
	return out
}

// Middle is the middle of the i-th parameter, in its key's unit; durations in seconds.
func (s *Spread) Middle(i int) float64 { return s.keys[i].middle }

// Len is the number of what varies: the parameters, the factor on all of it, and the time
// that codecs take where their table says how well it is known.
func (s *Spread) Len() int {
	if s.codec != nil {
		return len(s.keys) + 2
	}
	return len(s.keys) + 1
}

// Draw is the configuration with every parameter at a quantile, above 0 and below 1,
// and the factor on its times. There are Len quantiles.
func (s *Spread) Draw(quantiles []float64) (c Config, factor float64, err error) {
	c = s.of
	for i, p := range s.keys {
		if err := c.Set(p.Key, p.key.text(p.At(p.middle, quantiles[i]))); err != nil {
			return c, 0, err
		}
	}
	if s.codec != nil {
		t := s.codec.of
		t.times /= hardware.Parameter{Times: s.codec.times}.At(1, quantiles[len(s.keys)+1])
		c.DeviceCodec = t.String()
	}
	site := hardware.Parameter{Times: portable.Exp(s.site)}
	return c, site.At(1, quantiles[len(s.keys)]), nil
}
