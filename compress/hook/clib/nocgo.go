//go:build !cgo

// Command clib is the C library of gradlab's codecs. It needs a C compiler:
//
//	CGO_ENABLED=1 go build -buildmode=c-shared -o libgradlab.so ./compress/hook/clib
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "gradlab's C library is built with a C compiler: CGO_ENABLED=1 go build -buildmode=c-shared -o libgradlab.so ./compress/hook/clib")
	os.Exit(2)
}
