// Package portable computes with the same bits on every processor, on which Go's package
// math and its compiler leave them open.
//
// Functions of package math have assembly for some processors, and in plain Go the compiler
// fuses products with sums where a processor has an instruction for it. Here every operation
// is rounded once, as written: a conversion around a product keeps it from being fused. What
// package math computes exactly (Sqrt, FMA, Floor, Ldexp, Mod and their like) is the same
// everywhere already.
package portable
