package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/registry"
)

// Constants are what software and hardware do to bytes and steps beside the bandwidths,
// latencies and speeds that have keys of their own. Sheets of clusters, transports and
// nodes set them; constants.share is one of them in a recipe, a sheet and a command line.
// The defaults are an ideal machine.
type Constants struct {
	Share    float64       `min:"0.001" max:"1" doc:"part of network.bandwidth that payloads get, beside headers and what software does not use"`
	Overlap  float64       `min:"0" max:"1" doc:"part of the time that overlap=buckets saves which is really saved; only predictions take it into account (whatif, advise, --timing), the virtual clock saves all"`
	Reduce   Bandwidth     `unit:"bandwidth" min:"0" doc:"what software of one process sends at most where gradients are summed on the way; 0: as much as the NIC"`
	Gather   Bandwidth     `unit:"bandwidth" min:"0" doc:"what software of one process sends at most where payloads are gathered; 0: as much as the NIC"`
	Call     time.Duration `unit:"duration" min:"0" doc:"what a collective call costs for every doubling of the ranks; payloads that are gathered take one a tensor"`
	Message  time.Duration `unit:"duration" min:"0" doc:"how long a frame keeps its stream busy beside its bytes: what a call costs its host"`
	Stream   Bandwidth     `unit:"bandwidth" min:"0" doc:"what one stream between two ranks of different hosts carries at most, such as a TCP connection; 0: as much as the NICs"`
	Bridge   Bandwidth     `unit:"bandwidth" min:"0" doc:"what all ranks of one host together send each other at most, as where their links meet in one PCIe bridge; 0: no limit"`
	Colocate bool          `doc:"servers share the hosts of workers, one after the other"`
	Model    string        `oneof:"fair,fifo" doc:"how streams share virtual NICs; fifo is approximate"`
	Overhead float64       `min:"0" doc:"what a step takes longer when there are several workers, whatever they send: 0.03 is 3 per cent"`
	Step     time.Duration `unit:"duration" min:"0" doc:"software of a step: how much longer it takes on two workers, beside overhead, counted once and once more for every doubling of the workers"`
	Input    float64       `min:"0" doc:"samples a second that a virtual host reads for all its workers together, beside their passes, which take at least as long; 0: no limit"`
	Apply    Bandwidth     `unit:"bandwidth" min:"0" doc:"gradients that a virtual server decodes and adds a second, one push behind the other, in bytes of their payload; 0: as long as device.codec says"`
}

// Ideal reads and writes constants as spec text: ideal(share=0.8,step=1ms).
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Ideal = registry.New[Constants]("constants")

var _ = Ideal.Add("ideal", "no cost of software, no limit beside those of keys", idealConstants)

var idealConstants = Constants{Share: 1, Overlap: 1, Model: "fair"}

// constantsKey is the key of all constants together; constantsKey + "share" is that of one.
const constantsKey = "constants"

// Validate implements registry.Validator.
func (c Constants) Validate() error { return errors.Join(c.wrong("option %q: %w", "")...) }

// wrong is an error for each value out of its range, named behind a prefix.
func (c Constants) wrong(form, prefix string) (errs []error) {
	v := reflect.ValueOf(c)
	for _, k := range constantKeys() {
		if err := k.inRange(v.Field(k.field)); err != nil {
			errs = append(errs, fmt.Errorf(form, prefix+strings.TrimPrefix(k.Name, constantsKey+"."), err))
		}
	}
	return errs
}

// Bandwidth is bytes per second; its text may be bits per second, such as 1Gbps.
type Bandwidth float64

// UnmarshalText reads 1Gbps, 125MB/s or a bare number of bytes per second.
func (b *Bandwidth) UnmarshalText(text []byte) error {
	x, err := parseBandwidth(string(text))
	*b = Bandwidth(x)
	return err
}

// MarshalText writes bytes per second without loss.
func (b Bandwidth) MarshalText() ([]byte, error) {
	if b == 0 {
		return []byte("0"), nil
	}
	return []byte(bandwidthText(float64(b))), nil
}

// constantKeys are the constants as keys; field is the place in Constants.
var constantKeys = sync.OnceValue(func() (out []Key) {
	for i, p := range Ideal.Entries()[0].Params {
		f := reflect.TypeFor[Constants]().Field(i)
		k := Key{constantsKey + "." + p.Key, f.Type.String(), p.Default, p.Doc, i, `effect:"environment" on:"virtual" ` + f.Tag}
		if u := f.Tag.Get("unit"); u != "" {
			k.Type = u
		}
		out = append(out, k)
	}
	return out
})

// lawSigma is the option of key device.law that sheets set and predictions draw.
const lawSigma = "device.law.sigma"

// Settings lists the keys of a configuration, in place of constants each of them. Names
// of all of them can be given to Get and Set.
func Settings() (out []Key) {
	for _, k := range allKeys() {
		if k.Name == constantsKey {
			out = append(out, constantKeys()...)
			continue
		}
		out = append(out, k)
	}
	return out
}

// findSetting finds a key, a constant, or the sigma of a lognormal law.
func findSetting(name string) (Key, bool) {
	if k, ok := findKey(name); ok {
		return k, true
	}
	for _, k := range constantKeys() {
		if k.Name == name {
			return k, true
		}
	}
	if name == lawSigma {
		return Key{Name: lawSigma, tag: `effect:"environment" on:"virtual" min:"0" max:"3"`}, true
	}
	return Key{}, false
}

// limits are what a setting may be at least and at most.
func (k Key) limits() (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	if x, err := strconv.ParseFloat(k.tag.Get("min"), 64); err == nil {
		lo = x
	}
	if x, err := strconv.ParseFloat(k.tag.Get("max"), 64); err == nil {
		hi = x
	}
	if k.tag.Get("unit") == "duration" {
		lo = max(lo, 0)
	}
	return lo, hi
}

// WithUnit is a number as the text of a setting, inside its limits; durations are given
// in seconds.
func WithUnit(name string, x float64) string {
	if k, ok := findSetting(name); ok {
		return k.text(x)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// text is a value inside the setting's limits, with its unit.
func (k Key) text(x float64) string {
	lo, hi := k.limits()
	x = min(max(x, lo), hi)
	switch k.tag.Get("unit") {
	case "duration":
		return time.Duration(x * 1e9).String()
	case "bandwidth":
		return strconv.FormatFloat(x, 'g', -1, 64) + "B/s"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
