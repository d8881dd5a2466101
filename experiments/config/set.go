package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Set gives a key a value written as text, with its unit if it has one. The
// error names the key, what was given and what is allowed.
func (c *Config) Set(name, text string) error { return c.set(name, text, nil) }

// set is Set where the texts of a recipe are read.
func (c *Config) set(name, text string, t *texts) error {
	name = strings.ToLower(name)
	if isPart(name) {
		return c.setPart(name, strings.TrimSpace(text))
	}
	k, ok := findKey(name)
	if !ok {
		return UnknownKey(name)
	}
	f := reflect.ValueOf(c).Elem().Field(k.field)
	text = strings.TrimSpace(text)
	before := map[string]string{"transport": c.Transport, "node": c.Node}
	var err error
	switch k.tag.Get("unit") {
	case "bandwidth":
		var v float64
		if v, err = parseBandwidth(text); err == nil {
			f.SetFloat(v)
		}
	case "flops":
		var v float64
		if v, err = parseScaled(text, "FLOPS", "FLOP/s"); err == nil {
			f.SetFloat(v)
		}
	case "duration":
		if d, bad := time.ParseDuration(text); bad == nil {
			text = d.String()
		}
		f.SetString(text)
	default:
		err = setValue(f, text)
	}
	if k.Name == "cluster" && err == nil {
		err = c.join(text)
		if hardware.IsFile(text) { // what a run keeps needs no file of others
			text = "none"
			f.SetString(text)
		}
	}
	if was, ok := before[k.Name]; ok && err == nil {
		err = c.takeOver(k.Name, was, text)
	}
	if _, ok := k.language(); ok && f.Kind() == reflect.String && err == nil { // of others setValue has read it
		_, err = t.parse(k, text)
		err = hinted(err)
	}
	if err == nil {
		err = k.inRange(f)
	}
	if k.Name == "target" && c.Target.Metric.Name != "" {
		c.Metric = c.Target.Metric.Name
	}
	if err != nil {
		return fmt.Errorf("key %q: %w", k.Name, err)
	}
	return nil
}

// SetPath is Set for a key, or for an option inside the spec text of one:
// schedule.lr is option lr of whatever schedule there is, codec.keep option keep of
// the codec or of one inside it. It gives the key that was changed.
func (c *Config) SetPath(path, value string) (key string, err error) {
	path = strings.ToLower(strings.TrimSpace(path))
	if _, ok := findKey(path); ok {
		return path, c.Set(path, value)
	}
	for i := range path { // the longest key first: device.law.sigma
		at := len(path) - 1 - i
		if path[at] != '.' {
			continue
		}
		key, name := path[:at], path[at+1:]
		k, _ := findKey(key)
		l, _ := k.language()
		if l.with == nil {
			continue
		}
		v, err := l.parse(c.Get(key))
		if err == nil {
			v, err = l.with(v, name, value)
		}
		if err != nil {
			return key, fmt.Errorf("%s: %w", path, err)
		}
		return key, c.Set(key, l.text(v))
	}
	return "", fmt.Errorf("%q is neither a key nor an option of one, such as schedule.lr, codec.keep or optimizer.beta; %w", path, UnknownKey(path))
}

// setValue reads the text of a field of Config.
func setValue(f reflect.Value, text string) error {
	if into, ok := f.Addr().Interface().(*Constants); ok {
		all, err := Ideal.Parse(text)
		if err == nil {
			*into = all
		}
		return err
	}
	return registry.SetScalar(f, text)
}

// inRange refuses a value that the key's tags rule out.
func (k Key) inRange(f reflect.Value) error {
	if all, ok := f.Interface().(Constants); ok {
		return all.Validate()
	}
	if k.tag.Get("unit") == "duration" && f.Kind() == reflect.String {
		if d, err := time.ParseDuration(f.String()); err != nil || d < 0 {
			return fmt.Errorf("want a duration such as 50us or 1.5ms, not %q", f.String())
		}
	}
	if one := k.tag.Get("oneof"); one != "" {
		if all := strings.Split(one, ","); !slices.Contains(all, f.String()) {
			return fmt.Errorf("want %s, not %q", strings.Join(all, " or "), f.String())
		}
	}
	var x float64
	switch {
	case f.Type() == reflect.TypeFor[time.Duration]() && f.Int() < 0:
		return fmt.Errorf("want a duration such as 50us or 1.5ms, not %v", f.Interface())
	case f.CanInt():
		x = float64(f.Int())
	case f.CanFloat():
		x = f.Float()
	default:
		return nil
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return fmt.Errorf("want a finite number")
	}
	if lo := k.tag.Get("min"); lo != "" {
		if v, _ := strconv.ParseFloat(lo, 64); x < v {
			return fmt.Errorf("want at least %s, not %v", lo, f.Interface())
		}
	}
	if hi := k.tag.Get("max"); hi != "" {
		if v, _ := strconv.ParseFloat(hi, 64); x > v {
			return fmt.Errorf("want at most %s, not %v", hi, f.Interface())
		}
	}
	return nil
}

// Get returns a key's value as text, the form Set reads.
func (c Config) Get(name string) string {
	if isPart(name) {
		return c.getPart(name)
	}
	k, ok := findKey(name)
	if !ok {
		return ""
	}
	return formatValue(reflect.ValueOf(c).Field(k.field))
}

func formatValue(v reflect.Value) string {
	if all, ok := v.Interface().(Constants); ok {
		return Ideal.Spec(all)
	}
	switch v.Kind() {
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// getPart is Get for one of the constants, and for the sigma of the law: 0 of a constant
// law, "" of one that has none.
func (c Config) getPart(name string) string {
	if name == lawSigma {
		switch l, _ := timing.Laws.Parse(c.DeviceLaw); l := l.(type) {
		case timing.Constant:
			return "0"
		case timing.Lognormal:
			return strconv.FormatFloat(l.Sigma, 'g', -1, 64)
		}
		return ""
	}
	for _, k := range constantKeys() {
		if k.Name == name {
			return constantText(reflect.ValueOf(c.Constants).Field(k.field))
		}
	}
	return ""
}

func constantText(v reflect.Value) string {
	if b, ok := v.Interface().(Bandwidth); ok {
		text, _ := b.MarshalText()
		return string(text)
	}
	return formatValue(v)
}

// setPart is Set for one of the constants, or for the sigma of the law.
func (c *Config) setPart(name, text string) error {
	if name == lawSigma {
		x, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			return fmt.Errorf("key %q: want a number, not %q", name, text)
		case c.getPart(name) == "":
			return fmt.Errorf("key %q: device.law=%s has no sigma; set device.law=lognormal(sigma=%s)", name, c.DeviceLaw, text)
		case x == 0:
			return c.Set("device.law", "constant")
		}
		return c.Set("device.law", fmt.Sprintf("lognormal(sigma=%s)", strconv.FormatFloat(x, 'g', -1, 64)))
	}
	option := strings.TrimPrefix(name, constantsKey+".")
	to, err := Ideal.With(c.Constants, option, strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("key %q: %w", name, err)
	}
	c.Constants = to
	return nil
}

// isPart reports whether a name is that of a constant or of the sigma of the law.
func isPart(name string) bool {
	_, key := findKey(name)
	_, any := findSetting(name)
	return any && !key
}

// keyOf is the key whose value a setting changes; of a constant itself, as a recipe may say
// each.
func keyOf(setting string) string {
	if setting == lawSigma {
		return "device.law"
	}
	return setting
}

// number is a setting's value, of durations in seconds.
func (c Config) number(k Key) float64 {
	text := c.Get(k.Name)
	switch k.tag.Get("unit") {
	case "duration":
		d, _ := time.ParseDuration(text)
		return d.Seconds()
	case "bandwidth":
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			x, _ = parseBandwidth(text)
		}
		return x
	}
	x, _ := strconv.ParseFloat(text, 64)
	return x
}

// Show is a key's value the way people write it, with its unit: 1Gbps where Get
// says 1.25e+08. Set reads both and comes to the same value.
func (c Config) Show(name string) string {
	text := c.Get(name)
	k, ok := findKey(name)
	if !ok {
		return text
	}
	f := reflect.ValueOf(c).Field(k.field)
	if f.Kind() != reflect.Float64 {
		return text
	}
	x := f.Float()
	switch k.tag.Get("unit") {
	case "bandwidth":
		if 0 < x && x < 1000 {
			return text + "B/s" // without a unit so little would be refused
		}
		if strings.HasPrefix(name, "network.") { // others are rates of devices
			return exactly(x, scaled(8*x)+"bps", text, parseBandwidth)
		}
		return exactly(x, scaled(x)+"B/s", text, parseBandwidth)
	case "flops":
		return exactly(x, scaled(x)+"FLOPS", text, func(s string) (float64, error) { return parseScaled(s, "FLOPS") })
	}
	return text
}
