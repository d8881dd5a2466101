// Package parts is parts of gradlab that live outside it, each one file: a codec with a
// memory (leftover), a wrapper (shuffle) and an optimizer with a momentum (ball).
// Importing the package is all it takes to have them in spec text, recipes, listings and
// benchmarks, as gradlab/main.go shows. Its tests name none of them to the suites, which
// find them by registry.
package parts
