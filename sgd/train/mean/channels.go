package mean

import (
	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// What activities of ranks that exchange gradients themselves say to each other,
// and the conversations of collectives.
var (
	onMade      = message.Say("bucket made", comm.Control, readBucket)      // a reducer's main activity → its exchange activity
	onExchanged = message.Say("bucket exchanged", comm.Control, readBucket) // back
	onReady     = message.Say("ready", comm.Control, message.ReadCount)     // how many tensors a rank has ready
	onReduce    = message.Say("reduce", comm.Gradient, message.ReadCount)   // by bucket: collectives
	onNorm      = message.Say("norm", comm.Gradient, message.ReadCount)     // sums of batch norms
)

// bucketWord names a bucket, or says only that something is done.
type bucketWord struct{ k int }

// Put implements Word.
func (w bucketWord) Put(h comm.Header) comm.Header { h.Step = uint64(w.k); return h }

func readBucket(h comm.Header) bucketWord { return bucketWord{int(h.Step)} }
