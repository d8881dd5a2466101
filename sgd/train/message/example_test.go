package message_test

import (
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// loss is a word: a worker's loss at a step.
type loss struct {
	step  int
	value float64
}

func (l loss) Put(h comm.Header) comm.Header {
	h.Step, h.Value = uint64(l.step), l.value
	return h
}

var onLoss = message.Say("loss", comm.Report, func(h comm.Header) loss { return loss{int(h.Step), h.Value} })

// origin is a run of which no process has started again.
type origin uint64

func (o origin) Stamp() comm.Header { return comm.Header{Run: uint64(o)} }

func ExampleSay() {
	h := onLoss.Header(origin(42), loss{7, 0.25}, 0)
	mail := onLoss.Open(comm.NewFrame(h, comm.NewBuffer(0)))
	defer mail.Release()
	fmt.Println(mail.Header.Run, mail.Word.step, mail.Word.value)
	// Output: 42 7 0.25
}
