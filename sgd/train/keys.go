package train

import (
	"strings"

	"github.com/gradlab/gradlab/comm"
)

// Names in checkpoints. What belongs to a rank, a shard or both has their numbers
// behind the name: Key(keySeq, 2, 0) is seq/2/0, of worker 2 at shard 0. Old
// checkpoints are read by these names, so none of them changes.
const (
	// Of the whole run.
	KeyVersion     = "version"     // updates made
	keyNanoseconds = "nanoseconds" // the net's clock
	KeyParam       = "param"       // parameters
	KeyOpt         = "opt/"        // + slot: the optimizer's state
	KeyRound       = "round"       // localsgd: exchanges made
	keyMeter       = "meter"       // of progress, of the rank that tells it or the observer
	keyMembers     = "members"     // of an elastic run: its memberships
	keyPart        = "part"        // of a job within the run, for the observer: which part of the model it trains
	keyGoing       = "going"       // the ranks have gone on: nobody waits for the checkpoint

	keyZeroed = "zeroed" // gradients made zero
	keyVoided = "voided" // gradients given up
	keyMissed = "missed" // of an elastic run: steps made without it
	keyLost   = "lost"   // of an elastic run: squares of residuals that were given up
	keyLeft   = "left"   // virtual nanoseconds at which it left the step
	keyOwn    = "own"    // parameters of its own
	KeyInner  = "inner"  // + slot: state of its own optimizer

	KeyUp      = "codec/up"     // + block: codecs of what it sends
	keyAmend   = "amend/worker" // + name: a corrector that works at the worker
	keyDelays  = "delays"       // and staleness: how often
	keyRelay   = "relay"        // and shard: sums passed on
	keyFlow    = "flow"         // of a relay of an open run, for the observer: sums passed on and got
	keyRelayed = "codec/relay"  // + block: codecs of a relay; and child: what it receives by

	// By shard.
	keyMade     = "made"       // and worker: of an elastic run, its pushes before the present epoch
	keyTold     = "told"       // and worker: of these, those in its last report
	keyCounts   = "counted"    // and worker: of an open run, pushes of its present stay that are in made
	keyMarked   = "marked"     // of an open run, for the observer: who is at the mark
	keyWorkers  = "workers"    // of an elastic run, in memory: who they are
	keyPast     = "past"       // and worker: its pushes before it died
	keyMeasures = "measures"   // what was measured
	keyCore     = "core"       // the core's state
	keyAmends   = "amend"      // + name: a corrector at the server
	keySent     = "sent"       // + version: parameters that held pushes were computed on
	keyIn       = "codec/in"   // and worker, + block: receiving ends
	keyDown     = "codec/down" // and worker, + block: codecs of parameters
	keyHeld     = "held"       // and worker: parameters that it holds

	// By worker and shard.
	keySeq    = "seq"    // pushes made
	keyBefore = "before" // of an open run: pushes before the worker came last
	keyHolds  = "holds"  // version of the parameters it was last sent

	// Bytes: of each rank behind its number, of all without.
	keyBytesUp, keyBytesDown = "bytes_up", "bytes_down"
	keyRaw, keyBF16          = "raw_bytes", "bf16_bytes" // what codecs raw and bf16 would have sent
	keyWire, keyShared       = "wire", "shared"          // what links carried, and memory in their place
	keyReport, keyBody       = "report", "body"
)

// isHeld says whether a vector of a server is not its part of one as long as the
// parameters, but kept for a worker.
func isHeld(name string) bool { return strings.HasPrefix(name, keyHeld+"/") }

// Tags that pushes have in checkpoints: a core keeps the headers of those that it
// holds, and the numbers of channels are not for keeping.
const (
	keptTag     comm.Tag = 1
	keptTreeTag comm.Tag = 25
)
