//go:build !linux

package patience

func inMemory() {}
