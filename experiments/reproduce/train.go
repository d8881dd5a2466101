package reproduce

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
)

// run makes one training run from defaults and keys, each "key=value", and
// keeps its folder, which is named for what was taken out of it, too. Software takes
// nothing, and codecs are billed, only where a key says so. An interrupted study goes on where it was.
func (l *Lab) run(ctx context.Context, name string, keys ...string) (*experiments.Result, error) {
	recipe, err := config.ParseRecipe(l.Runs.Recipe, "", []byte("about: a run of a study\ntransport: ideal\n"))
	if err != nil {
		return nil, err
	}
	runs, err := recipe.Runs(keys, false)
	if err != nil {
		return nil, err
	}
	if less := l.off(runs[0].Config); less != nil {
		keys = append(slices.Clip(keys), less...)
		if runs, err = recipe.Runs(keys, false); err != nil {
			return nil, err
		}
		name += " without " + l.removed.Name
	}
	c := runs[0].Config
	if c.OnNet().Virtual && !slices.ContainsFunc(keys, func(kv string) bool { return strings.HasPrefix(kv, "device.codec=") }) {
		c.DeviceCodec = "free"
	}
	opt := l.Runs
	opt.Resume, opt.Implied = true, true
	release, err := l.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r, err := l.flights.once(ctx, config.Run{Name: name, Config: c}, opt)
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", name, err)
	}
	return r, nil
}

// mlp is the net that studies of asynchrony train: one layer of 64, in a quick
// study of 32.
func (l *Lab) mlp() string {
	if l.Quick {
		return "mlp(hidden=[32])"
	}
	return "mlp(hidden=[64])"
}
