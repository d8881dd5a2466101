package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// A configuration that is written in Go, not read, ends in an error that names the key,
// whatever is in it.
func TestConfigWrittenInGo(t *testing.T) {
	t.Parallel()
	good := Default()
	good.Model, good.Data, good.Steps, good.Net = "logistic", "synthetic(dim=4,n=64,test=16)", 3, "sim"
	if _, err := (Run{Config: good}).Build(Places{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range everyKey() {
		f := valueOfKey(&good, k)
		var bad []any
		switch f.Kind() {
		case reflect.String:
			bad = []any{"no such thing(", "nothing(x=1)", "\x00"}
		case reflect.Int, reflect.Int64:
			bad = []any{-2, math.MinInt}
		case reflect.Float64:
			bad = []any{math.NaN(), math.Inf(1), math.Inf(-1), -2.0}
		}
		for _, v := range bad {
			c := good
			valueOfKey(&c, k).Set(reflect.ValueOf(v).Convert(f.Type()))
			t.Run(fmt.Sprintf("%s=%v", k.Name, v), func(t *testing.T) {
				_, err := Run{Config: c}.Build(Places{Dir: t.TempDir(), Cache: t.TempDir()}, nil)
				if x, isNumber := v.(float64); err == nil && (k.tag.Get("min") != "" || isNumber && !(x < 0 && !math.IsInf(x, 0)) || k.tag.Get("spec") != "") {
					t.Error("it was taken")
				}
				var e *Error
				if err != nil && (!errors.As(err, &e) || !strings.Contains(err.Error(), k.Name)) {
					t.Errorf("no word of the key: %v", err)
				}
			})
		}
	}
}
