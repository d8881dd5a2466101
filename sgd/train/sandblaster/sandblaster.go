// Package sandblaster holds mode sandblaster: L-BFGS on parameter servers, commanded by
// a coordinator that has no parameters. It stands on the exported part of package train,
// as a mode from elsewhere does; importing the package enrols it.
package sandblaster

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// Names in checkpoints. Old checkpoints are read by these names.
const (
	keyVersion     = "version"     // iterations made
	keyCoordinator = "coordinator" // what it knows
	keySeq         = "seq"         // and worker and shard: pushes that it has made, of the kernel
	keySlice       = "slice"       // and shard, + name: what it counts
	keyHistory     = "lbfgs"       // vectors, by number
)

// Sandblaster is Sandblaster L-BFGS (Dean et al. 2012, §4.2): a batch method on
// parameter servers, whose coordinator never holds the parameters. The shards
// hold the point, its gradient and the history, each its slice of every vector.
// The coordinator, one further rank, sends them short commands (copy, axpy,
// scale, dot) and adds up their partial dot products; the rest is package lbfgs.
//
// A gradient is that of a batch cut into portions of `batch` samples, meant to be
// many more than there are workers. A worker asks for one, fetches the point if
// it has not got it, pushes the portion's gradient to the shards, which add it up,
// and asks for the next one. So fast workers take more. When none is left,
// workers without work are given copies of those that are still out, up to Backup
// of each. The first answer counts, a shard rejects what it has counted already,
// and who still computes a copy is called off. A worker that dies merely leaves
// its portion to others.
//
// An update of the run is an iteration, with as many evaluations as its line
// search takes. The line search, which the paper does not specify, is that of
// package lbfgs. Where the batch is not the training set, every iteration draws
// its own: it evaluates the point once more, on the new batch, so that a pair of
// the history always is of one function. Further departures: a portion is pushed
// by itself, where the paper adds several up before, since a copy can then be
// told from what it copies. And nothing is prefetched nor kept near a worker, as
// samples are drawn by address.
//
// With elastic=on the coordinator hands portions to whoever is there.
//
// Optimizer and schedule have no say. Bits depend on the order of arrival on real
// clocks, and repeat on the virtual one. A marked point of the run
// (checkpoint_every) comes every so many iterations.
//
// Rule: w ← w − α·H·∇F, H from the last pairs of the history, α by line search.
//
// Tuning: portions many more than workers; backup=1 where some are slow;
// history=10.
//
// Cost: a gradient of the whole batch an evaluation; two vectors a pair of the
// history, spread over the shards.
type Sandblaster struct {
	Portions int `doc:"portions of a batch; 0: as many as the training set has, which then is the batch of every iteration"`
	History  int `doc:"pairs of steps and changes of the gradient to learn from"`
	Backup   int `doc:"copies at most of a portion that is still out when none is left to hand out"`
}

var _ = train.Modes.Add("sandblaster", "Sandblaster L-BFGS: portions of a batch for whoever is idle, a coordinator without parameters (Dean et al. 2012)", Sandblaster{History: 10, Backup: 1})

// Validate checks the options.
func (m Sandblaster) Validate() error {
	switch {
	case m.Portions < 0:
		return fmt.Errorf("option \"portions\" is %d; want at least 0", m.Portions)
	case m.History < 1 || m.History > 1000:
		return fmt.Errorf("option \"history\" is %d; want 1 to 1000", m.History)
	case m.Backup < 0:
		return fmt.Errorf("option \"backup\" is %d; want at least 0", m.Backup)
	}
	return nil
}

// Traits implements train.Mode. The last server is the coordinator. PerUpdate does not count
// the evaluations of a line search, of which one update takes more than another.
func (m Sandblaster) Traits(j *train.Job) train.Traits {
	return train.Traits{Servers: max(1, j.Servers) + 1, Coordinator: true, PerUpdate: m.portions(j), Outlives: true, Admits: true,
		Codec: train.TakesCasts, Down: train.TakesCasts, Heeds: sandblasterHeeds, Refuses: sandblasterRefuses, Try: "optimizer=sgd"}
}

var (
	sandblasterHeeds   = []string{"servers", "placement", "down_codec"}
	sandblasterRefuses = map[string]string{
		"optimizer":  "it has an update rule of its own, L-BFGS with a line search",
		"policy":     "it adds up gradients of one point, none of which is late",
		"corrector":  "it adds up gradients of one point, none of which is late",
		"overlap":    "it pushes whole portions and has nothing to overlap",
		"order_log":  "it has no late gradients whose order could be told",
		"gap":        "it has no late gradients whose gap could be told",
		"codec":      "it takes differences of gradients for curvature, errors of a codec included",
		"down_codec": "it takes differences of gradients for curvature, errors of a codec included",
	}
)

// Check implements train.Mode.
func (m Sandblaster) Check(j *train.Job) error {
	if len(j.Model.Layout().Ranges(func(s sgd.Span) bool { return s.Role == sgd.Buffer })) > 0 {
		return errors.New("mode sandblaster: the model keeps statistics (batch norm) beside its parameters, and a line search would average those of points it leaves; take a model without")
	}
	if _, err := newSlice(train.NewRank(j, j.Workers), m); err != nil {
		return err
	}
	_, err := newHand(train.NewRank(j, 0), m)
	return err
}

// Part implements train.Mode.
func (m Sandblaster) Part(r *train.Rank) (train.Part, error) {
	switch j := r.Job(); {
	case r.ID() == j.Coordinator():
		return newCoordinator(r, m), nil
	case r.ID() >= j.Workers:
		return newSlice(r, m)
	}
	return newHand(r, m)
}

// portions is the number of portions of a batch.
func (m Sandblaster) portions(j *train.Job) int {
	if m.Portions > 0 {
		return m.Portions
	}
	if j.Data.Train == nil || j.Batch < 1 {
		return 1
	}
	return max(1, (j.Data.Train.Len()+j.Batch-1)/j.Batch)
}

// samples is the number of samples of a batch.
func (m Sandblaster) samples(j *train.Job) int {
	if m.Portions > 0 {
		return m.Portions * j.Batch
	}
	return j.Data.Train.Len()
}

// draw is the samples of a portion, and weight their share of the batch. Portions
// are numbered through the batches of a run.
func (m Sandblaster) draw(j *train.Job, portion uint64) (d sgd.Draw, weight float64) {
	d = sgd.Draw{First: portion * uint64(j.Batch), N: j.Batch}
	if m.Portions == 0 {
		d.N = min(d.N, j.Data.Train.Len()-int(d.First))
	}
	return d, float64(d.N) / float64(m.samples(j))
}

// What the coordinator says to shards and workers, and they to it.
var (
	onCommand = message.Say("command", comm.Control, readCommand)      // coordinator → server
	onDots    = message.Say("dots", comm.Control, readDots)            // server → coordinator: the command is carried out
	onIdle    = message.Say("idle", comm.Control, readIdle)            // worker → coordinator: asks for work
	onPortion = message.Say("portion", comm.Control, readErrand)       // coordinator → worker: a portion of the batch
	onKeep    = message.Say("keep", comm.Control, message.ReadNothing) // coordinator → worker: tell the state
	onFree    = message.Say("free", comm.Control, message.ReadNothing) // coordinator → worker: go on from a mark
	onEnd     = message.Say("end", comm.Control, message.ReadNothing)  // coordinator → worker: the run is over
	onRecall  = message.Say("recall", comm.Control, readErrand)        // coordinator → worker: it is no longer wanted
)

// commandWord is a command to a shard; its ops, if any, are the body.
type commandWord struct {
	code    uint8
	shard   int
	iter    int    // iterations made
	samples uint64 // evaluated so far
	eval    uint64
}

// Put implements Word.
func (w commandWord) Put(h comm.Header) comm.Header {
	h.Code, h.Shard, h.Step, h.Seq, h.Version = w.code, uint16(w.shard), uint64(w.iter), w.samples, w.eval
	return h
}

func readCommand(h comm.Header) commandWord {
	return commandWord{h.Code, int(h.Shard), int(h.Step), h.Seq, h.Version}
}

// dotsWord is what a shard tells with its dot products: bytes that workers sent it
// and were sent by it so far.
type dotsWord struct{ up, down uint64 }

// Put implements Word.
func (w dotsWord) Put(h comm.Header) comm.Header { h.Seq, h.Version = w.up, w.down; return h }

func readDots(h comm.Header) dotsWord { return dotsWord{h.Seq, h.Version} }

// errand is a portion that a worker is at.
type errand struct {
	id      uint64 // 0: nothing
	eval    uint64
	portion uint64
}

// Put implements Word.
func (w errand) Put(h comm.Header) comm.Header {
	h.Seq, h.Version, h.Step = w.id, w.eval, w.portion
	return h
}

func readErrand(h comm.Header) errand { return errand{h.Seq, h.Version, h.Step} }

// idleWord is what became of an errand, and asks for the next one.
type idleWord struct {
	code uint8
	was  errand
	loss float64
}

// Put implements Word.
func (w idleWord) Put(h comm.Header) comm.Header {
	h = w.was.Put(h)
	h.Code, h.Value = w.code, w.loss
	return h
}

func readIdle(h comm.Header) idleWord { return idleWord{h.Code, readErrand(h), h.Value} }

// Codes of the coordinator's commands to the shards.
const (
	commandDo    uint8 = iota // carry out the ops in the body and answer their dot products
	commandBegin              // the gradient is 0; count portions of the evaluation
	commandShow               // tell the observer the parameters
	commandSave               // tell the observer the state
	commandEnd                // elastic=on: nobody pushes any more
)

// Codes of what workers say to the coordinator, with which they ask for work.
const (
	idleNew    uint8 = iota // nothing was asked of it
	idleDone                // the shards have the portion
	idleGaveUp              // it was called off, or the point was not there any more
)
