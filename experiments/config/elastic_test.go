package config

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
)

// Keys elastic and ema are parts with options, which the job has.
func TestElasticAndAverage(t *testing.T) {
	t.Parallel()
	build := func(set string) (*Resolved, *train.Job, error) {
		c := Default()
		for _, kv := range strings.Fields("data=digits model=logistic mode=reduce " + set) {
			k, v, _ := strings.Cut(kv, "=")
			if err := c.Set(k, v); err != nil {
				return nil, nil, err
			}
		}
		r, err := c.Resolve()
		if err != nil {
			return nil, nil, err
		}
		j, err := r.Build(Places{Shelf: idleShelf}, nil)
		return r, j, err
	}
	r, j, err := build("")
	if err != nil || r.IsElastic() || r.MaxRestarts() != 0 || j.Elastic || j.MinWorkers != 0 || j.EMA != 0 || j.EMAEvery != 1 {
		t.Errorf("by default: %+v, %v", j, err)
	}
	r, j, err = build("elastic=on ema=on")
	if err != nil || !r.IsElastic() || r.MaxRestarts() != 0 || !j.Elastic || j.MinWorkers != 1 || j.OnResize != train.KeepGlobal || j.EMA != 0.999 || j.EMAEvery != 1 {
		t.Errorf("with their defaults: %+v, %v", j, err)
	}
	r, j, err = build("elastic=on(min_workers=2,max_restarts=3,on_resize=scale_lr) ema=on(0.75,every=4)")
	if err != nil || r.MaxRestarts() != 3 || j.MinWorkers != 2 || j.OnResize != train.ScaleLR || j.EMA != 0.75 || j.EMAEvery != 4 {
		t.Errorf("with options: %+v, %v", j, err)
	}
	for set, want := range map[string]string{
		"elastic=true":                `key "elastic": elasticity "true": no elasticity named "true"`,
		"elastic=on(min_worker=2)":    `on has no option "min_worker"; did you mean "min_workers"?`,
		"elastic=on(min_workers=0)":   `option "min_workers": want at least 1, not 0`,
		"elastic=on(max_restarts=-1)": `option "max_restarts": want 0 or more, not -1`,
		"elastic=on(on_resize=grow)":  `option "on_resize": want keep_global or scale_lr, not "grow"`,
		"elastic=none(min_workers=2)": `none has no option "min_workers"`,
		"elastic=on(min_workers=9)":   "min_workers is 9, want 0 to 4",
		"elastic=on net=mpi":          `key "elastic"`,
		"min_workers=2":               "it is an option of elastic",
		"ema=0.9998":                  `the decay is an option: on(decay=0.9998)`,
		"ema=on(decay=0)":             `key "ema": average "on(decay=0)": on: option "decay": want above 0 and below 1, not 0`,
		"ema=on(decay=1)":             `option "decay"`,
		"ema=on(every=0)":             `option "every": want at least 1 update, not 0`,
		"ema=on(decay=0.9,steps=2)":   `on has no option "steps"; there are: decay, every`,
		"ema_decay=0.9":               "ema=on(decay=0.99)",
		"trace=true":                  "observe=trace",
	} {
		if _, _, err := build(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	// An option is set by its path, as that of any part.
	c := Default()
	c.Elastic, c.EMA = "on", "on"
	for path, value := range map[string]string{"elastic.min_workers": "3", "ema.decay": "0.5"} {
		if _, err := c.SetPath(path, value); err != nil {
			t.Error(err)
		}
	}
	if c.Elastic != "on(min_workers=3)" || c.EMA != "on(decay=0.5)" {
		t.Errorf("elastic=%s ema=%s", c.Elastic, c.EMA)
	}
	// In YAML on is a word, as none is.
	for _, text := range []string{"elastic: on\nema: on\n", "elastic: \"on\"\nema: 'on'\n"} {
		if c := mustRuns(t, text)[0].Config; c.Elastic != "on" || c.EMA != "on(decay=0.999)" {
			t.Errorf("%q: elastic=%s ema=%s", text, c.Elastic, c.EMA)
		}
	}
}
