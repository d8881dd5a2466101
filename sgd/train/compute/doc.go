// Package compute makes gradients and takes steps on the cores of one machine. It knows neither
// ranks nor modes: who asks for a gradient says of which samples, and where to put it.
//
// The workers of a process share a Gate, which admits as many passes as the cores have room for.
// For each gradient a worker takes a Desk at its Seat: the memory of a pass, with a Loader that
// draws the next batch meanwhile. Desk.Gradient computes what is Wanted micro-batch by
// micro-batch, looks for NaN and Inf, and takes lengths for the Noise scale; then the desk goes
// back and the core is free. A Stepper takes the step of an update rule on cores that are idle,
// and lets the result into an Average. Both hold memory as long as the program runs, and allocate
// nothing in a step.
package compute
