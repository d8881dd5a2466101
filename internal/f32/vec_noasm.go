//go:build !amd64 || noasm

package f32

// whole is how many of n elements assembly takes: none, there is none.
func whole(int) int { return 0 }

// wholeF16 is whole for kernels that convert halves.
func wholeF16(int) int { return 0 }

// sixteens is how many of n elements AVX-512 takes.
func sixteens(int) int { return 0 }

// What follows is called with nothing to do.

func axpyAVX2(dst []float32, a float32, x []float32)      {}
func axpyToAVX2(dst, y []float32, a float32, x []float32) {}
func addAVX2(dst, x []float32)                            {}
func subAVX2(dst, x []float32)                            {}
func scaleAVX2(x []float32, a float32)                    {}
func clampAVX2(x []float32, limit float32)                {}
func fillAVX2(x []float32, v float32)                     {}
func addBytesAVX2(dst []float32, scale float32, b []byte) {}

func dotAVX2(s *[16]float64, a, b []float32)           {}
func sumAVX2(s *[16]float64, x []float32, mask uint32) {}
func maxBitsAVX2(x []float32) uint32                   { return 0 }

func maxBytesAVX2(b []byte) uint32 { return 0 }
func maxHalfAVX2(b []byte) uint32  { return 0 }

func signsAVX2(dst []byte, x []float32)                         {}
func addSignsAVX2(dst []float32, plus, minus float32, b []byte) {}

func reluAVX2(dst, x []float32)        {}
func addReLUAVX2(dst, a, b []float32)  {}
func reluGradAVX2(dx, dy, y []float32) {}

func geluAVX2(y, x []float32)        {}
func geluGradAVX2(dy, x []float32)   {}
func geluAVX512(y, x []float32)      {}
func geluGradAVX512(dy, x []float32) {}

func biasReLUAVX2(rows, cols int, x, bias []float32, relu bool)                    {}
func scaleShiftAVX2(rows, cols int, y, x, scale, shift, plus []float32, relu bool) {}
func normGradAVX2(rows, cols int, dx, dy, x, k, p, q []float32)                    {}
func colSumsAVX2(rows, cols int, sum []float64, x []float32)                       {}
func reluGradColSumsAVX2(rows, cols int, sum []float64, dy, y []float32)           {}
func momentsAVX2(rows, cols int, sum, sq []float64, x []float32)                   {}
func normGradSumsAVX2(rows, cols int, sdy, sdyx []float64, dy, x, y []float32)     {}

func momentumAVX2(u, v []float32, lr, beta float32)                             {}
func nesterovAVX2(u, v []float32, lr, beta float32)                             {}
func adagradAVX2(u, s []float32, lr, eps float32)                               {}
func rmspropAVX2(u, s []float32, lr, decay, keep, eps float32)                  {}
func rmspropMomentumAVX2(u, s, v []float32, lr, decay, keep, eps, beta float32) {}
func adamAVX2(u, m, v []float32, rate, unbias, b1, c1, b2, c2, eps float32)     {}

func encodeBF16AVX2(dst []byte, x []float32)             {}
func decodeBF16AVX2(dst []float32, b []byte)             {}
func addBF16AVX2(dst []float32, scale float32, b []byte) {}
func roundBF16AVX2(x []float32)                          {}
func flushBF16AVX2(dst, x []float32)                     {}
func encodeFP16AVX2(dst []byte, x []float32)             {}
func decodeFP16AVX2(dst []float32, b []byte)             {}
func addFP16AVX2(dst []float32, scale float32, b []byte) {}
func roundFP16AVX2(x []float32)                          {}
