// Package nn is neural networks on flat vectors: layers, and a small zoo of
// models.
//
// A net is a list of Layers, plain structs of options. New binds them to an
// input shape: each layer learns its shapes, claims its spans of the flat
// parameter vector, refuses what does not fit, and adds its operations to a
// program. The program is planned once (see plan): operations run in stages that
// take a few samples at a time through all they hold, and everything a pass
// writes lies in a Scratch, grown on first use, so that a step allocates
// nothing.
//
// Layers do their neighbours' work where it costs nothing more. A bias, a
// shortcut or a ReLU is part of the pass before it, and nothing is written twice;
// whoever writes Conv{}, BatchNorm{}, ReLU{} need not know.
//
// Activations are N×H×W×C, row major, channels last. Batches come as N×C×H×W and
// are turned where the first layer looks at pixels; dense layers and dropouts
// before that see them as they come. So the inputs of a dense layer behind a
// convolution are in the order h, w, c, and the weights of a convolution are
// rows of ky, kx, in, one an output channel.
//
// A pass runs on up to par.Threads goroutines, or sgd.Pass.Threads if that is
// less, yet the results are bit-identical at any number: work is cut into microbatches
// that depend only on shapes, and partial sums are added in a fixed order.
//
// The arithmetic is float32, by the kernels of internal/f32, internal/conv and
// internal/pool. What it should be is spelt out in float64 in the tests, which
// check that specification against differences and the kernels against it.
package nn
