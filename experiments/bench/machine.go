package bench

import (
	"runtime"
	"runtime/debug"

	"github.com/klauspost/cpuid/v2"
)

// Machine is what figures were measured on.
type Machine struct {
	CPU      string   `json:"cpu"`
	Cores    int      `json:"cores"`
	Features []string `json:"features"` // instruction sets the kernels choose from
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Go       string   `json:"go"`
	Revision string   `json:"revision,omitempty"` // of this program, "+" if it was changed since
}

// ThisMachine describes the machine this process runs on.
func ThisMachine() Machine {
	m := Machine{
		CPU: cpuid.CPU.BrandName, Cores: runtime.NumCPU(), Features: []string{},
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
	}
	for _, f := range []cpuid.FeatureID{cpuid.AVX, cpuid.AVX2, cpuid.FMA3, cpuid.AVX512F, cpuid.ASIMD} {
		if cpuid.CPU.Supports(f) {
			m.Features = append(m.Features, f.String())
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		modified := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				m.Revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = "+"
			}
		}
		m.Revision += modified
	}
	return m
}
