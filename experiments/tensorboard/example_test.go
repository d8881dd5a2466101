package tensorboard_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/experiments/tensorboard"
)

// An event file that `tensorboard --logdir` shows; in earnest the buffer is a
// file of the name.
func Example() {
	at := time.Unix(1_700_000_000, 0)
	var file bytes.Buffer
	w, err := tensorboard.Open(&file, at)
	if err != nil {
		panic(err)
	}
	for step, loss := range []float64{2.3, 1.1, 0.4} {
		if err := w.Write(at, step, tensorboard.Scalar("train/loss", loss)); err != nil {
			panic(err)
		}
	}
	fmt.Println(tensorboard.FileName(at, "host", 42, 0), file.Len(), "bytes")
	// Output:
	// events.out.tfevents.1700000000.host.42.0 184 bytes
}
