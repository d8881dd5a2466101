//go:generate sh -c "cd ../_gen && go run ."

// Package cpu says which instructions of the processor kernels may use.
package cpu

import (
	"strings"
	"sync/atomic"
)

// Features is a set of extensions of the amd64 instruction set.
type Features uint32

// The extensions that kernels use.
const (
	AVX Features = 1 << iota
	AVX2
	FMA
	F16C
	BMI2
	POPCNT
	AVX512F
	AVX512BW
	AVX512DQ
	AVX512VL
	AVX512BF16

	None Features = 1 << 31 // no processor has it: what a kernel that is not in this build needs
)

var names = [...]string{"AVX", "AVX2", "FMA", "F16C", "BMI2", "POPCNT", "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512BF16"}

// String lists the extensions, as "AVX AVX2".
func (f Features) String() string {
	var s []string
	for i, name := range names {
		if f>>i&1 == 1 {
			s = append(s, name)
		}
	}
	return strings.Join(s, " ")
}

// usable are the extensions that the processor and the operating system have, but for those
// that Hide took away.
var usable atomic.Uint32

func init() { usable.Store(uint32(detected())) }

// Has reports whether kernels may use all of f.
func Has(f Features) bool { return Features(usable.Load())&f == f }

// Usable returns the extensions that kernels may use.
func Usable() Features { return Features(usable.Load()) }

// Hide makes Has report false for the extensions in f, until restore is called. Tests do it
// to run what another processor would. It proves nothing about a kernel that is reached all
// the same, as its instructions are still there.
func Hide(f Features) (restore func()) {
	old := usable.Load()
	usable.Store(old &^ uint32(f))
	return func() { usable.Store(old) }
}

// Each calls f on every kind of processor that this one can stand in for: as it is, without
// AVX-512, and without vectors beyond those of all amd64 processors. For tests.
func Each(f func(kind string)) {
	const (
		wide   = AVX512F | AVX512BW | AVX512DQ | AVX512VL | AVX512BF16
		narrow = AVX | AVX2 | FMA | F16C | BMI2 | POPCNT
	)
	f("as it is")
	for _, k := range []struct {
		name    string
		without Features
	}{{"without AVX-512", wide}, {"without AVX", wide | narrow}} {
		if Usable()&k.without != 0 {
			restore := Hide(k.without)
			f(k.name)
			restore()
		}
	}
}

// Kernel is one that is in this build.
type Kernel struct {
	Name  string // of its way in
	Needs Features
}

var kernels = map[string][]Kernel{}

// Add enters the kernels of a package. Generated code does.
func Add(pkg string, k ...Kernel) { kernels[pkg] = append(kernels[pkg], k...) }

// Kernels returns the kernels in this build, by package.
func Kernels() map[string][]Kernel { return kernels }

// Running counts the kernels in this build, and those that the processor can run, and
// returns what the others need beside what it has.
func Running() (running, all int, missing Features) {
	for _, list := range kernels {
		for _, k := range list {
			if all++; Has(k.Needs) {
				running++
			} else {
				missing |= k.Needs &^ Usable()
			}
		}
	}
	return running, all, missing
}
