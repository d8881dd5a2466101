//go:build (!amd64 && !arm64) || noasm

package f32

// fused says that assembly multiplies and adds with one rounding: there is none.
const fused = false
