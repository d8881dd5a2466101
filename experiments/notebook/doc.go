// Package notebook runs Go notebooks, those of folder notebooks among them, and
// checks that they still show what they showed. It needs nothing but the go command.
//
// The notebooks are written for GoNB (github.com/janpfeifer/gonb), a Jupyter
// kernel for Go, and are opened with it. The rules that count here: a line %%
// begins the body of a main function, what stands before it are declarations,
// which later cells can use; every cell runs as a process of its own, so
// variables of a body do not outlive it; lines that begin with ! or % speak to
// the kernel and are left out. Unlike with GoNB, a name is declared once,
// and none is declared as _, which GoNB would declare twice.
//
// All cells of all notebooks become programs of one temporary module, built
// together against this module.
package notebook
