//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package data

import "os"

// mapFile reads a file where there is no way to map it.
func mapFile(path string) (b []byte, hold *mapping, err error) {
	b, err = os.ReadFile(path)
	return b, nil, err
}

// onlyOne does not wait here: processes that ask at the same time do the same.
func onlyOne(string) (release func()) { return func() {} }
