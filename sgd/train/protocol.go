package train

import (
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// What ranks tell the observer, and it them. Bodies of the first five and the last
// are JSON, a state, parameters or lines; nobody is billed for any of them.
var (
	onStart    = message.Say("start", comm.Report, message.ReadNothing)         // observer → all: state to begin from
	onProgress = message.Say("progress", comm.Report, message.ReadNothing)      // lead → observer: Progress
	onMark     = message.Say("mark", comm.Report, message.ReadNothing)          // any → observer: mark, announces a snapshot
	OnSnapshot = message.Say("snapshot", comm.Report, message.ReadNothing)      // any → observer: parameters
	onState    = message.Say("state", comm.Report, message.ReadNothing)         // all → observer: state at a checkpoint mark
	onGo       = message.Say("go", comm.Report, message.ReadNothing)            // observer → who waits: the checkpoint is whole
	onAsk      = message.Say("ask", comm.Control, message.ReadCount)            // first rank of a job within a run → those of others: what becomes of a step
	onFinal    = message.Say("final", comm.Report, message.ReadNothing)         // all → observer: RankReport
	onOrder    = message.Say("order", comm.Report, message.ReadNothing)         // server → observer: lines of the order log
	onWorker   = message.Say("worker", comm.Report, message.ReadNothing)        // worker → observer: WorkerState
	onTaken    = message.Say("taken", comm.Report, message.ReadCount).Private() // observer → who sent it: the snapshot of an update was evaluated or put aside
	onReached  = message.Say("reached", comm.Report, message.ReadNothing)       // observer → who decides where a run stops: it has come to Until
)

// Who is a member of an elastic run; see registrar and member. The observer evaluates beside
// it, and parts take what is for them, so all of it is private.
var (
	onRoll  = message.Say("roll", comm.Report, readMuster).Private()              // worker → observer; of the observer to itself
	onVoid  = message.Say("void", comm.Report, readMuster).Private()              // observer → worker: an epoch is called off
	onForm  = message.Say("form", comm.Report, readMuster).Private()              // observer → worker: a Membership as JSON, or the end
	onHeal  = message.Say("heal", comm.Parameters, message.ReadNothing).Private() // worker → worker that joins: the state to begin from
	onNever = message.Say("never", comm.Report, message.ReadNothing).Private()    // nobody says it: who waits for it waits for the end of its context
	onWound = message.Say("wound up", comm.Report, message.ReadNothing).Private() // an activity of a part → the main one: it has ended
	onTold  = message.Say("membership", comm.Report, readMuster)                  // observer → itself: what the registrar has decided
)

// Who comes into an open run, and goes. Without servers the observer has the part of the
// first one in it, by reports.
var (
	onHere    = message.Say("here", comm.Report, message.ReadNothing)   // worker → observer: its process has begun
	onAwait   = message.Say("await", comm.Control, readPull)            // worker → first server: it comes when so many updates are made
	onCome    = message.Say("come", comm.Control, message.ReadNothing)  // first server → worker: they are
	OnEnter   = message.Say("enter", comm.Control, message.ReadNothing) // worker → server: asks for parameters, and pushes
	onWelcome = message.Say("welcome", comm.Parameters, readAnswer)     // server → worker: parameters, and where the slowest worker is; without any: the run is over
	onLeave   = message.Say("leave", comm.Control, readMuster)          // worker → server: pushes no more
	onMoved   = message.Say("moved", comm.Report, readMuster)           // first server → observer: a worker has come or left
)

// rollWord is what is said of membership.
type rollWord struct {
	code   uint8
	epoch  int
	step   int // that its last boundary was before; of one that leaves, made; of one that is missed, its incarnation
	before int // and the boundary before that
	rank   int // who it is about

	left float64 // of one that leaves: square of the norm of what its codecs have yet to send
}

// Codes of rollWord.
const (
	rollRested uint8 = iota // worker: what it did is called off, or others leave or join by plan
	rollEmpty               // worker: what it did is called off, before it had the state to begin from
	rollDone                // worker: has no more steps to make
	rollLeaves              // worker: leaves by plan before a step
	rollMisses              // worker: another one is gone, as far as it can see
	rollGone                // observer to itself: a worker is gone, with the cause as body
	rollFormed              // an epoch begins
	rollEnd                 // the run is over
	rollOut                 // the worker is no member any more, or never was; the body says why
	rollHere                // worker: its process has begun
	rollAbsent              // a worker that is no member, and would join, is gone
)

// Put implements Word.
func (w rollWord) Put(h comm.Header) comm.Header {
	h.Code, h.Version, h.Step, h.Seq = w.code, uint64(w.epoch), uint64(w.step), uint64(w.rank)
	if h.Value = float64(w.before); w.code == rollLeaves {
		h.Value = w.left
	}
	return h
}

func readMuster(h comm.Header) rollWord {
	w := rollWord{code: h.Code, epoch: int(h.Version), step: int(h.Step), rank: int(h.Seq)}
	if w.left = h.Value; w.code != rollLeaves {
		w.before, w.left = int(h.Value), 0
	}
	return w
}

// What workers say to servers, and servers to workers. Modes whose servers listen by
// themselves hear OnPush, OnPull and OnBye, and OnEnter where others come.
var (
	OnPush     = message.Say("push", comm.Gradient, readPush)                 // worker → server: encoded gradient
	onAnswer   = message.Say("answer", comm.Parameters, readAnswer)           // server → worker: parameters, in answer to a push
	OnPull     = message.Say("pull", comm.Control, readPull)                  // worker → server: asks for parameters
	onFetched  = message.Say("fetched", comm.Parameters, readAnswer)          // server → worker: parameters, in answer to a pull
	onSave     = message.Say("save", comm.Control, message.ReadNothing)       // worker → server: is at a checkpoint mark
	onSaved    = message.Say("saved", comm.Control, readSaved)                // server → worker: state taken, go on
	OnBye      = message.Say("bye", comm.Control, message.ReadNothing)        // worker → server: pushes no more
	onRestored = message.Say("restored", comm.Report, readAnswer)             // server → worker: parameters that it had before a stop
	onPaced    = message.Say("paced fetch", comm.Control, readPull)           // a replica's main activity → its fetch activity
	onBrought  = message.Say("fetch done", comm.Control, message.ReadNothing) // back
	onHanded   = message.Say("push begun", comm.Control, message.ReadNothing) // a worker's main activity → its push activity
	onAsked    = message.Say("asked", comm.Control, message.ReadNothing)      // a wish that was under way is sent
	onPushed   = message.Say("push done", comm.Control, message.ReadNothing)  // back
)

// Pushed is what a worker says of a gradient.
type Pushed struct {
	Shard         int
	Step, Version uint64 // of the worker, or what else it numbers pushes by; of the parameters it was computed on
	Seq           uint64 // how many it has pushed to this shard before
	Loss          float64
}

// Put implements Word.
func (w Pushed) Put(h comm.Header) comm.Header {
	h.Shard, h.Step, h.Version, h.Seq, h.Value = uint16(w.Shard), w.Step, w.Version, w.Seq, w.Loss
	return h
}

func readPush(h comm.Header) Pushed {
	return Pushed{int(h.Shard), h.Step, h.Version, h.Seq, h.Value}
}

// answerWord is what a server says of the parameters it sends, or why it sends none.
type answerWord struct {
	Shard         int
	Code          uint8  // of answers
	Step, Version uint64 // of what is answered; of the parameters
}

// Codes of answers.
const (
	codeOK uint8 = iota
	codeRejected
	codeVoid
)

// Put implements Word.
func (w answerWord) Put(h comm.Header) comm.Header {
	h.Shard, h.Code, h.Step, h.Version = uint16(w.Shard), w.Code, w.Step, w.Version
	return h
}

func readAnswer(h comm.Header) answerWord { return answerWord{int(h.Shard), h.Code, h.Step, h.Version} }

// Pulled is what a worker says who asks for parameters of a version or a later one.
type Pulled struct {
	Shard         int
	Step, Version uint64
}

// Put implements Word.
func (w Pulled) Put(h comm.Header) comm.Header {
	h.Shard, h.Step, h.Version = uint16(w.Shard), w.Step, w.Version
	return h
}

func readPull(h comm.Header) Pulled { return Pulled{int(h.Shard), h.Step, h.Version} }

// savedWord lets a worker go on from a mark.
type savedWord struct {
	Shard   int
	Version uint64
	Voids   uint64 // gradients of the worker that this server has voided so far
}

// Put implements Word.
func (w savedWord) Put(h comm.Header) comm.Header {
	h.Shard, h.Version, h.Seq = uint16(w.Shard), w.Version, w.Voids
	return h
}

func readSaved(h comm.Header) savedWord { return savedWord{int(h.Shard), h.Version, h.Seq} }

// Flags of messages.
const (
	FlagStop message.Flags = 1 << iota // the run is being stopped: save and end
	FlagDone                           // the planned updates are made: end
	flagMore                           // a further part follows
	FlagKeep                           // tell your state, and go on; in pushes and pulls: it is told
	flagCome                           // of the word to begin: the run goes on, come into it

	// AskFlags are those by which one rank asks something of all.
	AskFlags = FlagStop | FlagKeep // what one rank asks of all
)

// What the observer says to workers that keep apart, and they to it; see pace.
var (
	onTick    = message.Say("tick", comm.Report, readTick)                     // worker → observer: a step is made
	onCall    = message.Say("call", comm.Report, readCall)                     // observer → worker
	onBegun   = message.Say("begun", comm.Report, message.ReadCount)           // worker → observer: how many steps it has begun
	onLimit   = message.Say("limit", comm.Report, message.ReadCount)           // observer → worker: how many it may make
	onHeard   = message.Say("heard", comm.Report, message.ReadCount).Private() // observer → worker: it has heard of so many of its steps
	onQuiet   = message.Say("quiet", comm.Report, message.ReadCount)           // worker → observer: it has made them
	onRest    = message.Say("rest", comm.Report, message.ReadCount)            // observer → worker: all are quiet after so many updates
	onEnded   = message.Say("ended", comm.Control, message.ReadNothing)        // the pace activity → the main one: it has ended
	onDropped = message.Say("dropped", comm.Report, readCall)                  // worker → observer: nothing is under way from it to one that leaves
	// In epochs of membership.
	onRests  = message.Say("rests", comm.Report, message.ReadCount)  // worker → observer: it has made so many steps, and makes no more in this epoch
	onBehind = message.Say("behind", comm.Report, message.ReadCount) // first worker → observer: all have come to that boundary
)

// tickWord is what a worker says of a step.
type tickWord struct {
	step     int // made
	loss     float64
	up, down uint64 // bytes that it has sent and received so far
}

// Put implements Word.
func (w tickWord) Put(h comm.Header) comm.Header {
	h.Step, h.Value, h.Seq, h.Version = uint64(w.step), w.loss, w.up, w.down
	return h
}

func readTick(h comm.Header) tickWord { return tickWord{int(h.Step), h.Value, h.Seq, h.Version} }

// callWord is what the observer wants of a worker, or has to say of another one.
type callWord struct {
	code    uint8
	updates int    // made in the run; of who comes and leaves: the epoch of membership
	rank    int    // of the other one
	life    uint32 // and its incarnation
}

// Codes of calls.
const (
	callHold  uint8 = iota // begin no further step
	callShow               // tell the parameters
	callLast               // the same, for the last time
	callQuit               // to itself: the worker has ended
	callCame               // another worker is there
	callGoes               // another worker leaves: send it nothing more, and say so when all that was sent is taken in
	callLeave              // leave, as nothing is under way to you
)

// Put implements Word.
func (w callWord) Put(h comm.Header) comm.Header {
	h.Code, h.Step, h.Seq, h.Version = w.code, uint64(w.updates), uint64(w.rank), uint64(w.life)
	return h
}

func readCall(h comm.Header) callWord {
	return callWord{h.Code, int(h.Step), int(h.Seq), uint32(h.Version)}
}

// What workers that gossip say to each other.
var (
	OnPeer  = message.Say("peer", comm.Gradient, readSaid)  // parameters, or their differences
	OnReply = message.Say("reply", comm.Gradient, readSaid) // parameters, in answer to parameters
)

// Said is what a worker says with its parameters.
type Said struct {
	Step   int     // of the worker that began
	Weight float64 // of push-sum; else 0
	Share  float64 // of that and the parameters, as the edge has it, in an open run; else 0
	life   uint32  // of an open run: the incarnation of the worker that is meant
}

// Put implements Word.
func (w Said) Put(h comm.Header) comm.Header {
	h.Step, h.Value, h.Seq, h.Version = uint64(w.Step), w.Weight, uint64(w.life), math.Float64bits(w.Share)
	return h
}

func readSaid(h comm.Header) Said {
	return Said{int(h.Step), h.Value, math.Float64frombits(h.Version), uint32(h.Seq)}
}
