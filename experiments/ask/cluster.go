package ask

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/progress"
)

// Write prints the points and the parameters for people.
func (c *Calibration) Write(out io.Writer, style string) error {
	percent := func(predicted, measured float64) string {
		return fmt.Sprintf("%+.1f %%", 100*(predicted/measured-1))
	}
	points := figure.Table{
		Header: []string{"", "point", "measured", "before", "after", "off", "90 %", "left out"},
		Right:  []bool{true, false, true, true, true, true, true, true},
	}
	for i, p := range c.Points {
		before := percent(p.Before, p.Measured)
		if c.unknown(p) {
			before = "–"
		}
		row := []string{fmt.Sprint(i + 1), p.What, progress.Seconds(p.Measured), before, progress.Seconds(p.Predicted), percent(p.Predicted, p.Measured), "fitted", ""}
		switch {
		case !p.Fitted:
			row[6] = progress.Seconds(p.Low) + " to " + progress.Seconds(p.High)
		case p.LeftOut > 0:
			row[7] = percent(p.LeftOut, p.Measured)
		default:
			row[7] = "–"
		}
		points.Rows = append(points.Rows, row)
	}
	if err := points.Write(out, style, 0); err != nil {
		return err
	}
	keys := figure.Table{Header: []string{"key", "before", "after", "90 %", "learned"}, Right: []bool{false, true, true, true, true}}
	for _, p := range c.Parameters {
		learned := fmt.Sprintf("%.0f %%", 100*p.Told)
		if p.Told < 0.05 {
			learned = "nothing"
		}
		keys.Rows = append(keys.Rows, []string{p.Key, shown(p.Key, p.Before), shown(p.Key, p.After), shown(p.Key, p.Low) + " to " + shown(p.Key, p.High), learned})
	}
	if err := keys.Write(out, style, 0); err != nil {
		return err
	}
	fmt.Fprintf(out, "before: what is known of transport %s (gradlab list transports); learned: the part of a key's variance that the points took away\n", c.base.Transport)
	for _, line := range c.findings() {
		fmt.Fprintln(out, line)
	}
	return nil
}

// unknown says whether nothing was known of a point's device, or of the links it takes.
func (c *Calibration) unknown(p CalibrationPoint) bool {
	return slices.ContainsFunc(c.free, func(x free) bool {
		return x.of != "" && x.of == p.config.Timing && x.Times >= anything || x.isLink() && p.config.Workers > p.config.NetworkPerHost
	})
}

// digits rounds to five of them.
func digits(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	return x
}

// Cluster is a file for key cluster: what the points' keys said of it, the parameters that
// were fitted, and how well these are known now.
func (c *Calibration) Cluster(about string) ([]byte, error) {
	keys := yaml.Node{Kind: yaml.MappingNode}
	put := func(key string, value *yaml.Node) {
		keys.Content = append(keys.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	set := func(key, value string) { put(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value}) }
	fitted := map[string]bool{"device": true, "device.flops": true, "device.codec": true, "cluster": true}
	for _, x := range c.free {
		fitted[x.Key] = true
	}
	def := config.Default()
	if fitted["device.law.sigma"] {
		fitted["device.law"] = true
	}
	for _, k := range config.Settings() {
		of := strings.HasPrefix(k.Name, "device.") || strings.HasPrefix(k.Name, "network.") || strings.HasPrefix(k.Name, "constants.")
		if of && !fitted[k.Name] && c.base.Get(k.Name) != def.Get(k.Name) {
			set(k.Name, c.base.Show(k.Name))
		}
	}
	out := struct {
		About  string             `yaml:"about"`
		Source string             `yaml:"source"`
		Keys   yaml.Node          `yaml:"keys"`
		Speeds map[string]float64 `yaml:"speeds,omitempty"`
		Site   float64            `yaml:"site"`
		Fitted []string           `yaml:"fitted"`
		Band   float64            `yaml:"band"`
	}{About: about, Source: "gradlab calibrate", Site: digits(c.Noise), Band: digits(c.LeftOut), Speeds: map[string]float64{}}
	var logs, widest float64
	for i, x := range c.free {
		told := c.Parameters[i].Told
		if x.of != "" {
			network, err := config.ProfileOf(x.of)
			if err != nil {
				return nil, err
			}
			out.Speeds[network.Name] = digits(x.middle)
			logs += math.Log(x.middle)
			widest = max(widest, c.sigmas[i]*math.Log(x.Times))
			continue
		}
		value := config.WithUnit(x.Key, digits(x.middle))
		p := hardware.Parameter{Value: value}
		if x.Times > 0 {
			p.Times = digits(math.Exp(c.sigmas[i] * math.Log(x.Times)))
		} else {
			p.Plus = max(digits(c.sigmas[i]*x.Plus), 1e-12)
		}
		node := &yaml.Node{}
		if err := node.Encode(p); err != nil {
			return nil, err
		}
		node.Style, node.LineComment = yaml.FlowStyle, fmt.Sprintf("learned %.0f %%", 100*told)
		put(x.Key, node)
	}
	if n := len(out.Speeds); n > 0 {
		set("device.flops", fmt.Sprintf("%.6g", math.Exp(logs/float64(n))))
		out.Site = digits(math.Hypot(c.Noise, widest))
	}
	if len(out.Speeds) == 1 {
		for _, s := range out.Speeds {
			keys.Content[len(keys.Content)-1].Value = fmt.Sprintf("%.6g", s)
		}
		out.Speeds = nil
	}
	var rows []string
	for i, p := range c.Points {
		if p.Fitted {
			rows = append(rows, fmt.Sprint(i+1))
		}
	}
	files := []string{}
	for _, p := range c.Points {
		f, _, _ := strings.Cut(p.Where, ":")
		if f, _, _ = strings.Cut(f, ", "); !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	out.Keys, out.Fitted = keys, []string{fmt.Sprintf("points %s of %s", strings.Join(rows, ", "), strings.Join(files, ", "))}
	return yaml.Marshal(out)
}
