// Command _gen writes the assembly of packages f32, codec, conv and pool for amd64, and the
// Go functions by which kernels are reached. From this folder:
//
//	go run .
//
// Each kernel does what its twin in plain Go does, with the same roundings in the same
// order. A kernel is reached where the processor has what it needs: see package kernel.
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/gradlab/gradlab/internal/_gen/codec"
	"github.com/gradlab/gradlab/internal/_gen/conv"
	"github.com/gradlab/gradlab/internal/_gen/gemm"
	"github.com/gradlab/gradlab/internal/_gen/kernel"
	"github.com/gradlab/gradlab/internal/_gen/pool"
	"github.com/gradlab/gradlab/internal/_gen/vec"
)

// packages are those with kernels, and what opens them.
var packages = []struct {
	name string
	open []func()
}{
	{"f32", []func(){gemm.Kernels, vec.Kernels}},
	{"codec", []func(){codec.Kernels}},
	{"conv", []func(){conv.Kernels}},
	{"pool", []func(){pool.Kernels}},
}

// avo knows one file a process, so each package has a process of its own.
func main() {
	for _, p := range packages {
		if len(os.Args) > 1 {
			if p.name == os.Args[1] {
				for _, open := range p.open {
					open()
				}
				kernel.Write("../"+p.name, p.name)
			}
			continue
		}
		cmd := exec.Command(os.Args[0], p.name)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
			os.Exit(1)
		}
	}
}
