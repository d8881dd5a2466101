package train

import (
	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// What went over the network is also counted as codecs raw and bf16 would have
// sent it: four bytes an element, and two but for buffers, which no codec touches.
// Modes with servers count what these take and answer, others what workers send. With local
// steps an exchange, or a push, stands for the gradients of all steps since the last one.

// plainly counts a frame with a part in it, either way.
func plainly(h comm.Host, pt wire.Part) { h.Traffic().Plain(pt.Plain()) }

// pushed counts the gradients behind a push.
func pushed(h comm.Host, j *Job, pt wire.Part) {
	raw, bf16 := pt.Plain()
	h.Traffic().Plain(j.perPush()*raw, j.perPush()*bf16)
}

// Tally puts what a rank has sent and been sent into its state, by the name of
// the rank: the observer adds it up.
func Tally(st *checkpoint.State, rank int, h comm.Host, up, down uint64) {
	c := h.Traffic().Count()
	for name, n := range map[string]uint64{keyBytesUp: up, keyBytesDown: down, keyRaw: c.RawBytes, keyBF16: c.BF16Bytes} {
		st.Ints[checkpoint.Key(name, rank)] = int64(n)
	}
}
