//go:build !amd64 || noasm

package pool

// whole is how many of c channels are for the assembly: there is none here.
func whole(int) int { return 0 }

func maxAVX2(y *float32, at *uint8, x *float32, n, c, w, h, stride int, relu bool) {}

func maxGradAVX2(dx, dy *float32, at *uint8, n, c, w, h, stride int, add bool) {}
