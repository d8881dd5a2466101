// Package record holds the measurements of a run: ranks take them, the observer gathers them,
// and run folders keep them as JSON. It knows neither jobs nor modes, so that readers of a run
// folder need no engine.
//
// A RankReport is the account of one rank, and lives as long as the rank's program. A Timer
// begins with the program and books where its time goes. A shard fills Gauges with ages and
// gaps, and Waits with the time that workers waited for each other. Meanwhile the lead rank
// sends a Progress now and then, workers send WorkerStates, and the observer makes an Eval of
// each snapshot and compares it with the run's Goal. At the end of its program the rank reads
// Timer and Gauges into its RankReport, and sends the report to the observer. Checkpoints hold
// Gauges, so that they go on in the next leg of a run; a Timer begins anew.
package record
