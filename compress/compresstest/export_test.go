package compresstest

import "testing"

// Each is for the suite's own tests.
var OfSeveral = ofSeveral[*testing.T]
