package hardware

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Transport is how software moves bytes between processes, and how much longer the
// steps of real frameworks take than those of an ideal device: keys of a
// configuration, each with a value, a spread and its source.
type Transport struct {
	Name   string      `yaml:"-"`
	About  string      `yaml:"about"`
	Source string      `yaml:"source"` // of the keys that name none
	Keys   []Parameter `yaml:"keys"`
	// Site is the relative standard deviation, in logarithms, of a step's time between
	// frameworks and sites of equal hardware.
	Site float64 `yaml:"site"`
}

// Parameter is a key of a configuration that is known up to a spread.
type Parameter struct {
	Key   string `yaml:"key"`
	Value string `yaml:"value"` // the middle, with its unit
	// Times is the factor of one standard deviation of the logarithm, at least 1; Plus
	// is a standard deviation in the key's own unit. One of the two is given.
	Times  float64 `yaml:"times,omitempty"`
	Plus   float64 `yaml:"plus,omitempty"`
	Source string  `yaml:"source,omitempty"` // where it differs from the others'
}

// At is the value of the parameter at a quantile between 0 and 1, where its middle is
// middle: lognormal for Times, normal for Plus.
func (p Parameter) At(middle, quantile float64) float64 {
	z := math.Sqrt2 * portable.Erfinv(2*quantile-1) // of a standard normal distribution
	if p.Times > 0 {
		return middle * portable.Exp(z*portable.Log(p.Times))
	}
	return middle + float64(z*p.Plus)
}

// Unknown is the transport, and the node, for those who do not know theirs: the middle of
// what was measured, with spreads to match.
const Unknown = "unknown"

// Transports lists what there is.
func Transports() []string { return names("transports") }

// LoadTransport reads a transport by name.
func LoadTransport(name string) (*Transport, error) {
	t := &Transport{Name: name}
	if err := load("transport", name, t); err != nil {
		return nil, err
	}
	if err := checkParameters("transport "+name, t.Keys); err != nil {
		return nil, err
	}
	return t, nil
}

func checkParameters(of string, all []Parameter) error {
	for _, p := range all {
		if (p.Times >= 1) == (p.Plus > 0) {
			return fmt.Errorf("%s, key %s: want times of at least 1, or plus of more than 0", of, p.Key)
		}
	}
	return nil
}
