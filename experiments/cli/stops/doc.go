// Package stops has the tests of runs that are stopped by a signal, and go on by --resume.
package stops
