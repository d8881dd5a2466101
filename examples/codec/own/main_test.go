package main

import (
	"testing"

	"github.com/gradlab/gradlab/compress/compresstest"
)

func TestEvery(t *testing.T) { compresstest.Family(t, Every{N: 4}) }
