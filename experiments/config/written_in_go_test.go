package config

import (
	"errors"
	"math"
	"reflect"
	"testing"
)

// A configuration written in Go, whatever its fields hold, resolves or is an *Error, and no
// method of it panics. What is resolved builds or is an error, and neither changes it.
func TestWrittenInGo(t *testing.T) {
	t.Parallel()
	good := mustResolve(t, Default())
	job, err := good.Build(Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, c Config) {
		t.Helper()
		_, _ = c.Goal(measured)
		c.YAML()
		c.Map()
		c.Hash()
		c.Within()
		c.Tells(Default())
		c.Trajectory()
		c.Timeless()
		c.OnNet()
		c.Stack()
		c.IsAlone()
		for _, k := range Keys() {
			c.Get(k.Name)
			c.Show(k.Name)
			c.Effect(k)
			c.Observes(k.Name)
		}
		r, err := c.Resolve()
		if wrong := (*Error)(nil); err != nil {
			if r != nil || !errors.As(err, &wrong) {
				t.Errorf("%v beside %v", r, err)
			}
			return
		}
		was := r.Config()
		if again, err := was.Resolve(); err != nil || again.Config() != was {
			t.Errorf("what is resolved resolves to %+v, %v", again, err)
		}
		r.Place(2)
		r.Hockney(1e9)
		r.Ranks()
		r.Idle(job)
		for name, f := range map[string]func() error{
			"Build":       func() error { _, err := r.Build(Places{}, nil); return err },
			"NewNet":      func() error { _, err := r.NewNet(2, 0); return err },
			"CodecPrices": func() error { _, err := r.CodecPrices(Places{}); return err },
			"Spread":      func() error { _, err := r.Spread(); return err },
		} {
			if wrong := (*Error)(nil); errors.As(f(), &wrong) && wrong.Error() == "" {
				t.Errorf("%s: an error without words", name)
			}
		}
		if r.Config() != was {
			t.Error("what is resolved has changed")
		}
	}
	t.Run("nothing", func(t *testing.T) { try(t, Config{}) })
	t.Run("defaults", func(t *testing.T) { try(t, Default()) })
	for _, k := range everyKey() {
		t.Run(k.Name, func(t *testing.T) {
			c := Default()
			f := valueOfKey(&c, k)
			switch f.Kind() {
			case reflect.Struct:
				f.SetZero()
			case reflect.String:
				f.SetString("no such((")
			case reflect.Float64:
				f.SetFloat(math.NaN())
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Uint64:
				f.SetUint(math.MaxUint64)
			default:
				f.SetInt(-7)
			}
			try(t, c)
		})
	}
}
