// Package faults has the tests of the program under faults: killed, stopped and paused
// processes, runs that are resumed, ranks that cannot join (docs/faults.md).
package faults
