// Package parts is parts of gradlab that live outside it, each one file: a codec with a
// memory (leftover), a wrapper (shuffle), an optimizer with a momentum (ball), a policy
// that waits (half), a corrector with a momentum (smooth), a data set (spiral), a model with
// a metric of its own (line) and a delay law (burst).
// Importing the package is all it takes to have them in spec text, recipes, listings and
// benchmarks, as gradlab/main.go shows. Its tests name none of them to the suites, which
// find them by registry.
package parts
