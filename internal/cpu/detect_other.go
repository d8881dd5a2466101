//go:build !amd64

package cpu

func detected() Features { return 0 }
