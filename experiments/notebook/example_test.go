package notebook_test

import (
	"fmt"

	"github.com/gradlab/gradlab/experiments/notebook"
)

// Numbers may differ a little from one machine to the next, words may not.
func ExampleCompare() {
	file := `{"nbformat": 4, "cells": [{"cell_type": "code", "source": "%%", "outputs": [{"output_type": "stream", "text": "accuracy 0.981, %s"}]}]}`
	was, err := notebook.Decode("kept", fmt.Appendf(nil, file, "near"))
	if err != nil {
		panic(err)
	}
	is, err := notebook.Decode("run", fmt.Appendf(nil, file, "far"))
	if err != nil {
		panic(err)
	}
	fmt.Println(notebook.Compare(was, is))
	// Output: [cell 1: "near", now "far", behind "accuracy 0.981 ,"]
}
