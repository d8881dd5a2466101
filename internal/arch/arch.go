// Package arch holds the project's statement of policy on imports and on
// sources of time and chance, as a test.
package arch
