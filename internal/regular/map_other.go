//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package regular

// Map reads a file where there is no way to map it.
func Map(path string) (b []byte, hold *Mapping, err error) {
	b, err = ReadFile(path, Any)
	return b, nil, err
}
