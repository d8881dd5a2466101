// Package elastic has the tests of elastic runs in processes: workers that are killed or
// paused, and come back (docs/faults.md).
package elastic
