// Package kernel opens kernels and writes the only way to them: a Go function for each,
// which runs its kernel where the processor has the features that the kernel needs, and
// nowhere else.
//
// A kernel that works on the first elements of a vector is opened by First. Its way in
// says how many elements it took. One that does all or nothing is opened by All, and its
// way in says whether it did. Both are compiled to "nothing" where there is no assembly.
package kernel

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// prefix is that of the symbols of kernels, which only their ways in may name.
const prefix = "asm"

// symbol is what the assembly of a kernel is called.
func symbol(name string) string { return prefix + string(name[0]-'a'+'A') + name[1:] }

// way is how a kernel is reached.
type way struct {
	name, by string // by: the parameter that counts elements, "" for all or nothing
	group    int    // what the count is a multiple of
	doc      []string
}

var ways []*way

func open(w *way, signature string) {
	TEXT(symbol(w.name), NOSPLIT, signature)
	Pragma("noescape")
	ways = append(ways, w)
}

// First opens a kernel that does what its twin does, for a number of elements that is a
// multiple of group. That number is the parameter by: an int, or a slice that has as many.
func First(name, signature, by string, group int, doc ...string) {
	open(&way{name, by, group, doc}, signature)
}

// All opens a kernel that does all or nothing.
func All(name, signature string, doc ...string) {
	open(&way{name: name, doc: doc}, signature)
}

// End closes a kernel.
func End() {
	VZEROUPPER()
	RET()
}

// Base, Length and Word load what parameters consist of.
func Base(name string) Register   { return Load(Param(name).Base(), GP64()) }
func Length(name string) Register { return Load(Param(name).Len(), GP64()) }
func Word(name string) Register   { return Load(Param(name), GP64()) }

// Address is where a parameter lies, which may be written.
func Address(name string) Mem {
	ref, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return ref.Addr
}

var labels int

// Labelled is a label of its own.
func Labelled(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}
