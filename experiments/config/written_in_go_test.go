package config

import (
	"math"
	"reflect"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
)

// A configuration written in Go, with whatever its fields hold, is an error of the
// methods that can return one, and a panic of none.
func TestWrittenInGo(t *testing.T) {
	t.Parallel()
	ds, err := data.Open("digits", data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good, err := Default().Build(Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, c Config) {
		t.Helper()
		returned := map[string]error{}
		for name, f := range map[string]func() error{
			"Resolve":     func() error { d := c; return d.Resolve() },
			"Build":       func() error { _, err := c.Build(Places{}, nil); return err },
			"Assemble":    func() error { _, _, err := c.Assemble(ds, Places{}); return err },
			"ModelFor":    func() error { _, err := c.ModelFor(sgd.Source(ds.Train)); return err },
			"NewNet":      func() error { _, err := c.NewNet(2, 0); return err },
			"CodecPrices": func() error { _, err := c.CodecPrices(Places{}); return err },
			"Spread":      func() error { _, err := c.Spread(); return err },
			"rest": func() error {
				_, _ = c.Goal(measured)
				c.Place(2)
				c.Emulated(nil)
				c.CodecsBilled(nil)
				c.YAML()
				c.Map()
				c.Hash()
				c.Within()
				c.Tells(Default())
				c.Trajectory()
				c.Timeless()
				c.Hockney(1e9)
				c.Idle(good)
				for _, k := range Keys() {
					c.Get(k.Name)
					c.Show(k.Name)
					c.Effect(k)
					c.Observes(k.Name)
				}
				return nil
			},
		} {
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s panics: %v", name, p)
					}
				}()
				returned[name] = f()
			}()
		}
		for _, name := range []string{"Build", "Assemble", "ModelFor", "NewNet", "CodecPrices", "Spread"} {
			if returned["Resolve"] != nil && returned[name] == nil {
				t.Errorf("Resolve says %v, and %s nothing", returned["Resolve"], name)
			}
		}
	}
	t.Run("nothing", func(t *testing.T) { try(t, Config{}) })
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
