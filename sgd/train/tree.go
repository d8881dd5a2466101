package train

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// tree is how the learners of mode rudra hang on the servers: every fan-in of
// successive nodes share a relay, level by level, until the servers have no more
// children than that. A relay sits with one of the learners below it, no two with
// the same one. The tree is the same for every shard.
type tree struct {
	parent []int           // of each learner: the rank its relay sits at, or servers
	relays map[int]*branch // by the rank they sit at
	top    []int           // children of the servers, by rank
}

// servers is the parent of the topmost nodes.
const servers = -1

// branch is a relay's place: learners lo … hi−1 are below it.
type branch struct {
	rank, parent int
	children     []int // by rank; each a learner or a relay
	lo, hi       int
	level        int // 1 above learners
}

// newTree hangs workers learners on a tree. Of level k = 1, 2, … the relay over
// the learners from lo on sits at lo + fanin^(k−1) − 1: under a full first child,
// where no relay of another level is, as their places differ modulo fanin^k. A
// node that would be alone below its relay goes up a level instead.
func newTree(workers, fanin int) *tree {
	t := &tree{parent: make([]int, workers), relays: map[int]*branch{}}
	type node struct {
		at, lo, hi int
		relay      bool
	}
	var level []node
	for w := range workers {
		level = append(level, node{w, w, w + 1, false})
	}
	for below, height := 1, 1; len(level) > fanin; below, height = below*fanin, height+1 {
		var next []node
		for i := 0; i < len(level); i += fanin {
			group := level[i:min(i+fanin, len(level))]
			if len(group) == 1 {
				next = append(next, group[0])
				continue
			}
			first, last := group[0], group[len(group)-1]
			b := &branch{rank: first.lo + below - 1, lo: first.lo, hi: last.hi, level: height}
			for _, n := range group {
				b.children = append(b.children, n.at)
				if n.relay {
					t.relays[n.at].parent = b.rank
				} else {
					t.parent[n.at] = b.rank
				}
			}
			t.relays[b.rank] = b
			next = append(next, node{b.rank, b.lo, b.hi, true})
		}
		level = next
	}
	for _, n := range level {
		t.top = append(t.top, n.at)
		if n.relay {
			t.relays[n.at].parent = servers
		} else {
			t.parent[n.at] = servers
		}
	}
	return t
}

// relay is the relay that the child of a node is; nil: the child is a learner.
// A node never has both a learner and the relay at the learner's rank for
// children.
func (t *tree) relay(child, parent int) *branch {
	if b := t.relays[child]; b != nil && b.parent == parent {
		return b
	}
	return nil
}

// sender is the decoding side of what a child sends its parent. Relays draw by
// seeds of their own, a level each: a codec that draws the same coordinates again
// from what they are the sum of would be biased.
func (j *Job) sender(b *branch, child int) compress.Block {
	seed := j.Seed
	if b != nil {
		seed = rng.New(j.Seed, "relay").Uint64(uint64(b.level))
	}
	return compress.Block{Rank: -1, World: j.Workers, Peer: child, Dir: compress.Up, Seed: seed}
}

// onTree is what nodes of a tree say to each other, and a learner to the relay that
// sits with it. One conversation, as a relay takes what comes in the order in which
// it comes.
//
// Who passes parameters on tells a learner of each shard on a channel of its own
// (onFetched.Of, onAnswer.Of): it may do so for several.
var (
	onTree  = message.Say("tree", comm.Control, readTree)
	onRelay = message.Say("relay done", comm.Control, message.ReadNothing) // a relay → the learner beside it: it has ended
)

// treeWord is a word on a tree.
type treeWord struct {
	code          uint8
	shard         int
	step, version uint64 // of a gradient or a sum; of parameters
	loss          float64
	seq           uint64 // codePush: gradients that the learner pushed before
	have          uint64 // codePull: the version there is, plus one
	learner       int    // codeRest, codeBye, codeEnter, codeLeave: whose word it is
	life          uint32 // codeEnter, codeLeave: the incarnation of that learner
	why           uint8  // codeLeave: as of rollWord
	left          float64
}

// Codes of words on a tree; see relay.
const (
	codePush   uint8 = iota // up: a learner's gradient
	codeRoll                // up: which gradients the sum behind it is made of
	codeSum                 // up: the sum of gradients
	codePull                // up: asks for parameters
	codeRest                // up: a learner is at a checkpoint mark
	codeBye                 // up: a learner pushes no more
	codeTaken               // down: a push, or a sum, has been taken
	codeParams              // down: parameters, or none if there are no newer ones
	codeHand                // to itself: the learner beside the relay has left its state
	codeQuit                // to itself: the learner beside the relay has ended
	codeEnter               // up: a learner has come into an open run
	codeLeave               // up: a learner has left an open run
	codeOver                // down: an open run is over
)

// Put implements Word.
func (w treeWord) Put(h comm.Header) comm.Header {
	h.Code, h.Shard, h.Step, h.Version, h.Value = w.code, uint16(w.shard), w.step, w.version, w.loss
	switch w.code {
	case codePull:
		h.Seq = w.have
	case codeRest, codeBye:
		h.Seq = uint64(w.learner)
	case codeEnter, codeLeave:
		h.Seq, h.Step, h.Version, h.Value = uint64(w.learner), uint64(w.life), uint64(w.why), w.left
	default:
		h.Seq = w.seq
	}
	return h
}

func readTree(h comm.Header) treeWord {
	w := treeWord{code: h.Code, shard: int(h.Shard), step: h.Step, version: h.Version, loss: h.Value}
	switch w.code {
	case codePull:
		w.have = h.Seq
	case codeRest, codeBye:
		w.learner = int(h.Seq)
	case codeEnter, codeLeave:
		w = treeWord{code: h.Code, shard: w.shard, learner: int(h.Seq), life: uint32(h.Step), why: uint8(h.Version), left: h.Value}
	default:
		w.seq = h.Seq
	}
	return w
}

// takenBelow begins the frame that tells a child, a relay or a learner, that what it
// pushed to a shard is taken.
func (j *Job) takenBelow(relay bool, shard int) comm.Header {
	if relay {
		return onTree.Header(j, treeWord{code: codeTaken, shard: shard}, 0)
	}
	return onAnswer.Of(shard).As(comm.Control).Header(j, answerWord{Shard: shard}, 0)
}

// paramsBelow begins the frame that answers a child's wish: of kind
// comm.Parameters with a shard's parameters, else without.
func (j *Job) paramsBelow(relay bool, kind comm.Kind, shard int, version uint64, flags message.Flags) comm.Header {
	if relay {
		return onTree.As(kind).Header(j, treeWord{code: codeParams, shard: shard, version: version}, flags)
	}
	return onFetched.Of(shard).As(kind).Header(j, answerWord{Shard: shard, Version: version}, flags)
}

// rollEntry is the size of what a sum says of one gradient in it.
const rollEntry = 36

// roll writes down which gradients a sum is made of: worker, sequence number,
// step, version and loss of each. It travels ahead of the sum and is billed.
func roll(of []comm.Header) *comm.Buffer {
	buf := comm.NewBuffer(rollEntry * len(of))
	b := buf.B[:0]
	for i := range of {
		h := &of[i]
		b = binary.LittleEndian.AppendUint32(b, uint32(h.From))
		b = binary.LittleEndian.AppendUint64(b, h.Seq)
		b = binary.LittleEndian.AppendUint64(b, h.Step)
		b = binary.LittleEndian.AppendUint64(b, h.Version)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(h.Value))
	}
	return buf
}

// readRoll reads a roll of gradients by learners lo … hi−1, appending to of, as
// headers like that of the frame it came in.
func readRoll(of []comm.Header, f comm.Frame, lo, hi int) ([]comm.Header, error) {
	b := f.Body
	if len(b) == 0 || len(b)%rollEntry != 0 {
		return of, fmt.Errorf("the roll of a sum has %d bytes, want a multiple of %d", len(b), rollEntry)
	}
	for ; len(b) > 0; b = b[rollEntry:] {
		h := f.Header
		h.From = int32(binary.LittleEndian.Uint32(b))
		h.Seq = binary.LittleEndian.Uint64(b[4:])
		h.Step = binary.LittleEndian.Uint64(b[12:])
		h.Version = binary.LittleEndian.Uint64(b[20:])
		h.Value = math.Float64frombits(binary.LittleEndian.Uint64(b[28:]))
		if int(h.From) < lo || int(h.From) >= hi {
			return of, fmt.Errorf("the roll of a sum names rank %d, want %d to %d", h.From, lo, hi-1)
		}
		of = append(of, h)
	}
	return of, nil
}
