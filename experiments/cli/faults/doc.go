// Package faults has the tests of the program under faults: killed and paused processes,
// and ranks that cannot join (docs/faults.md). Beside it are those of elastic runs and of
// stops.
package faults
