// Package nn is neural networks on flat vectors: layers as forward and backward
// pairs, and a small zoo of models.
//
// A net is a list of Layers, plain structs of options. New binds them to an
// input shape: each layer learns its shapes, claims its spans of the flat
// parameter vector, and refuses what does not fit. The bound net is immutable;
// everything a pass writes (activations, masks, partial sums) lives in a
// Scratch, grown on first use, so that a step allocates nothing.
//
// Activations are N×C×H×W, row major, one sample after the other. Images of a
// batch are worked on by up to f32.Threads goroutines, yet the results are
// bit-identical at any GOMAXPROCS: work is cut into pieces that depend only on
// shapes, and partial sums are added in a fixed order.
//
// Layers are generic over Float: they run in float32 and their gradients are
// checked in float64.
package nn

// Float is the arithmetic of a layer.
type Float interface{ float32 | float64 }
