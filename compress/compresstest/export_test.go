package compresstest

// Each is for the suite's own tests.
var OfSeveral = ofSeveral
