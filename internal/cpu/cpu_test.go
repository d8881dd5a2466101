package cpu

import "testing"

func TestHide(t *testing.T) {
	before := Usable()
	restore := Hide(AVX2 | AVX512F)
	if Has(AVX2) || Has(AVX2|AVX) || Usable() != before&^(AVX2|AVX512F) {
		t.Errorf("%v are left of %v", Usable(), before)
	}
	if restore(); Usable() != before {
		t.Errorf("%v, were %v", Usable(), before)
	}
	if Has(None) || !Has(0) {
		t.Error("a processor has what none has, or lacks nothing")
	}
}

func TestEach(t *testing.T) {
	before, seen := Usable(), 0
	Each(func(kind string) {
		if seen++; kind == "without AVX" && Has(AVX) || kind == "without AVX-512" && (Has(AVX512F) || Has(AVX) != (before&AVX != 0)) {
			t.Errorf("%s: %v", kind, Usable())
		}
	})
	if seen == 0 || Usable() != before {
		t.Errorf("%d kinds, %v are left of %v", seen, Usable(), before)
	}
}

func TestFeaturesAreNamed(t *testing.T) {
	if s := (AVX2 | AVX512BF16).String(); s != "AVX2 AVX512BF16" {
		t.Error(s)
	}
}

func TestRunning(t *testing.T) {
	defer func(old map[string][]Kernel) { kernels = old }(kernels)
	kernels = map[string][]Kernel{}
	Add("one", Kernel{"a", 0}, Kernel{"b", None})
	Add("two", Kernel{"c", 0})
	if running, all, missing := Running(); running != 2 || all != 3 || missing != None {
		t.Errorf("%d of %d, %v", running, all, missing)
	}
}
