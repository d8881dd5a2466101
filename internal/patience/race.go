//go:build race

package patience

func init() { raced = true }
