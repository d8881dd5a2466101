package train

import (
	"context"

	"github.com/gradlab/gradlab/sgd/train/message"
)

// heed notes what another activity has heard of servers.
func (w *worker) heed(flags message.Flags) {
	w.flags |= flags &^ FlagKeep
	w.asked = w.asked || flags&FlagKeep != 0
}

// taken waits until the push under way, which another activity makes, is taken.
func (w *worker) taken(ctx context.Context) error {
	if !w.away {
		return nil
	}
	w.away = false
	began := w.times.Read()
	_, flags, err := onPushed.Wait(ctx, w.Rank)
	w.times.Stood(began)
	w.heed(flags)
	return err
}
