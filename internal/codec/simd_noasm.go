//go:build !amd64 || noasm

package codec

// whole is how many of n elements assembly takes: none, there is none.
func whole(int, int) int { return 0 }

// wideWhole is the same of kernels of AVX-512.
func wideWhole(int, int) int { return 0 }

// deposited is how many words assembly spreads.
func deposited(int) int { return 0 }

// What follows is called with nothing to do, or not at all.

func packAVX2(dst, codes []byte, width int, by *[128]byte)       {}
func unpackAVX2(codes, p []byte, width int, by *[72]byte)        {}
func maxCodeAVX2(n int, p []byte, width int, by *[72]byte) uint8 { return 0 }
func maxByteAVX2(b []byte) uint8                                 { return 0 }

func levelsAVX2(codes []byte, x []float32, pre, perLevel float32, most int, start uint64)     {}
func addLevelsAVX2(dst []float32, scale float32, codes []byte, zero int, low, unit float64)   {}
func addLookupAVX2(dst []float32, codes []byte, values *[16]float32)                          {}
func stepsAVX2(codes []byte, x []float32, pre, low, perStep, top float32, start uint64)       {}
func nearestStepsAVX2(codes []byte, x []float32, low, perStep, top float64)                   {}
func extentAVX2(x []float32) (lo, hi int32)                                                   { return 1<<31 - 1, -1 << 31 }
func exponentsAVX2(codes []byte, x []float32, start uint64)                                   {}
func addExponentsAVX2(dst []float32, scale float32, codes, signs []byte)                      {}
func nearestFP16AVX2(dst []byte, x []float32) uint32                                          { return 0 }
func nearestBF16AVX2(dst []byte, x []float32) uint32                                          { return 0 }
func randomBF16AVX2(dst []byte, x []float32, start uint64) uint32                             { return 0 }
func randomFP16AVX2(dst []byte, x []float32, start uint64) uint32                             { return 0 }
func ternaryAVX2(codes []byte, x []float32, half float32)                                     {}
func atLeastAVX2(mask []byte, x []float32, tau uint32) uint32                                 { return 0 }
func countAVX2(x []float32, tau uint32) int                                                   { return 0 }
func scaleToAVX2(y, x []float32, a float64)                                                   {}
func signSumsAVX2(dst []byte, x []float32, sums *[32]float64)                                 {}
func hadamard64AVX2(x []float32)                                                              {}
func butterflies8AVX2(x []float32, h int)                                                     {}
func butterflies4AVX2(x []float32, h int)                                                     {}
func butterflies2AVX2(x []float32, h int)                                                     {}
func flipAVX2(x []float32, bits []byte)                                                       {}
func nearest1AVX2(codes []byte, y []float32, inv float64, by *[16]float32, sums *[16]float64) {}
func nearest2AVX2(codes []byte, y []float32, inv float64, by *[16]float32, sums *[16]float64) {}
func nearest3AVX2(codes []byte, y []float32, inv float64, by *[16]float32, sums *[16]float64) {}
func nearest4AVX2(codes []byte, y []float32, inv float64, by *[16]float32, sums *[16]float64) {}
func lookupAVX2(dst []float32, codes []byte, values *[16]float32)                             {}

func dots1AVX2(s *[64]float32, m, m2, q []float32, stride int)                          {}
func spread1AVX2(q []float32, stride int, m, m2 []float32, a *[8]float32)               {}
func combine1AVX2(dst []float32, scale float32, q []float32, stride int, a *[4]float32) {}
func dots2AVX2(s *[64]float32, m, m2, q []float32, stride int)                          {}
func spread2AVX2(q []float32, stride int, m, m2 []float32, a *[8]float32)               {}
func combine2AVX2(dst []float32, scale float32, q []float32, stride int, a *[4]float32) {}
func dots3AVX2(s *[64]float32, m, m2, q []float32, stride int)                          {}
func spread3AVX2(q []float32, stride int, m, m2 []float32, a *[8]float32)               {}
func combine3AVX2(dst []float32, scale float32, q []float32, stride int, a *[4]float32) {}
func dots4AVX2(s *[64]float32, m, m2, q []float32, stride int)                          {}
func spread4AVX2(q []float32, stride int, m, m2 []float32, a *[8]float32)               {}
func combine4AVX2(dst []float32, scale float32, q []float32, stride int, a *[4]float32) {}

func eightBitAVX2(codes []byte, x []float32, inv float64, cells *[1 << 14]uint32) {}
func addEightBitAVX2(dst []float32, codes []byte, values *[256]float32)           {}

func put8AVX2(dst []byte, x []float32)  {}
func set8AVX2(x []float32, src []byte)  {}
func add8AVX2(x []float32, src []byte)  {}
func put16AVX2(dst []byte, x []float32) {}
func set16AVX2(x []float32, src []byte) {}
func add16AVX2(x []float32, src []byte) {}

func foldsAVX2(dst, src []float64, stride, n, s int, mul []float64)                   {}
func unfoldsAVX2(dst []float64, stride int, src []float64, n, s int, mul []float64)   {}
func weavesAVX2(dst []float64, stride int, src []float64, n, s int, scale float64)    {}
func unweavesAVX2(dst, src []float64, stride, n, s int, scale float64)                {}
func folds3AVX2(dst, src []float64, stride, n int, mul []float64)                     {}
func unfolds3AVX2(dst []float64, stride int, src []float64, n int, mul []float64)     {}
func weaves3AVX2(dst []float64, stride int, src []float64, n int, scale float64)      {}
func unweaves3AVX2(dst, src []float64, stride, n int, scale float64)                  {}
func eightsAVX2(x []float64, stride, n int, mul *[7]float64)                          {}
func eightsBackAVX2(x []float64, stride, n int, mul *[7]float64)                      {}
func foldsAVX512(dst, src []float64, stride, n, s int, mul []float64)                 {}
func unfoldsAVX512(dst []float64, stride int, src []float64, n, s int, mul []float64) {}
func weavesAVX512(dst []float64, stride int, src []float64, n, s int, scale float64)  {}
func unweavesAVX512(dst, src []float64, stride, n, s int, scale float64)              {}
func folds3AVX512(dst, src []float64, stride, n int, mul []float64)                   {}
func unfolds3AVX512(dst []float64, stride int, src []float64, n int, mul []float64)   {}
func weaves3AVX512(dst []float64, stride int, src []float64, n int, scale float64)    {}
func unweaves3AVX512(dst, src []float64, stride, n int, scale float64)                {}
func eightsAVX512(x []float64, stride, n int, mul *[7]float64)                        {}
func eightsBackAVX512(x []float64, stride, n int, mul *[7]float64)                    {}
func transposeAVX2(dst, src []float64, h, w int)                                      {}
func widenAVX2(dst []float64, src []float32)                                          {}
func narrowAVX2(dst []float32, src []float64)                                         {}

func placesAVX2(a, b []uint32, cols int, start uint64)   {}
func median5AVX2(dst []float32, a, b, c, d, e []float32) {}

func placesAVX512(a, b []uint32, cols int, start uint64) {}
func lookAVX512(dst, table []float32, places []uint32)   {}

func addSignedAVX2(dst []float32, mask, signs []uint64, plus float32) {}

func climbAVX2(codes []byte, y []float32, perUnit, top float64, steps *[256]uint32, start uint64)   {}
func climbAVX512(codes []byte, y []float32, perUnit, top float64, steps *[256]uint32, start uint64) {}

func squeezeAVX2(idx []uint32, val, x []float32, tau, first uint32, order *[256]uint64) int {
	return 0
}
func bandAVX2(idx []uint32, val, x []float32, lo, hi, first uint32, order *[256]uint64) int {
	return 0
}
func bandAVX512(idx []uint32, val, x []float32, lo, hi, first uint32) int { return 0 }
func betweenAVX2(dst, x []float32, lo, hi uint32, order *[256]uint64) int { return 0 }
func betweenAVX512(dst, x []float32, lo, hi uint32) int                   { return 0 }
func sumOverAVX2(x []float32, from, sum float64) float64                  { return sum }

func pickAVX512(dst, x []float32, mask []byte) int                   { return 0 }
func pickAVX2(dst, x []float32, mask []byte, order *[256]uint64) int { return 0 }
func sumsReachAVX2(mask []byte, x, y, tau []float32)                 {}
func shrinkAVX2(x []float32, tau float32)                            {}

func momentumAVX2(u, v, g []float32, sent []byte, m, scale float32) uint32 { return 0 }
