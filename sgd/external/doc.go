// Package external trains a model that another process computes, in any language:
// it is the engine's side of the protocol of docs/external.md. Linux only.
// The other side, for Python with numpy, is python/gradlab/__init__.py; the program that
// trains imports it.
package external
