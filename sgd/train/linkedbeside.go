package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// Links may fetch and send in activities of their own, while the worker computes: at
// most one fetch and one push are under way. See Links.StartBeside.

// StartBeside begins the activities of FetchBeside and SendBeside. After Resume nothing
// comes before it, and EndBeside ends them.
func (l *Links) StartBeside() {
	l.times.Beside = true
	l.h.Go("fetch", l.fetchActivity)
	l.h.Go("push", l.pushActivity)
}

// EndBeside lets the activities end, which have nothing under way.
func (l *Links) EndBeside(ctx context.Context) error {
	if err := onPaced.Wake(ctx, l.Rank, Pulled{}, FlagDone); err != nil {
		return err
	}
	return onHanded.Wake(ctx, l.Rank, message.Nothing{}, FlagDone)
}

// FetchBeside begins to fetch parameters of a version or a later one; no other fetch is
// under way.
func (l *Links) FetchBeside(ctx context.Context, version uint64) error {
	l.fetching = true
	return onPaced.Wake(ctx, l.Rank, Pulled{Step: uint64(l.step), Version: version}, 0)
}

// Fetching says whether a fetch is under way.
func (l *Links) Fetching() bool { return l.fetching }

// Fetched waits for the fetch under way, if there is one, and takes up its parameters.
func (l *Links) Fetched(ctx context.Context) error {
	if !l.fetching {
		return nil
	}
	l.fetching = false
	began := l.times.Read()
	_, flags, err := onBrought.Wait(ctx, l.Rank)
	if err != nil {
		return err
	}
	l.times.Stood(began)
	l.w.heed(flags)
	for _, k := range l.w.links {
		if err := l.times.Taking(ctx, k.in.taking(0)); err != nil {
			return err
		}
		began := l.times.Start()
		err := l.w.take(k, 0, k.fetched)
		l.times.Taken(began)
		k.fetched.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// SendBeside begins to send what was encoded; no other push is under way.
func (l *Links) SendBeside(ctx context.Context) error {
	l.w.away = true
	return onHanded.Wake(ctx, l.Rank, message.Nothing{}, 0)
}

// Sent waits until the push under way, if there is one, has been answered. Nothing can
// be encoded before.
func (l *Links) Sent(ctx context.Context) error { return l.w.taken(ctx) }

// pushActivity takes pushes to the shards and waits for their receipt.
func (l *Links) pushActivity(ctx context.Context, _ comm.Host) error {
	for {
		_, told, err := onHanded.Wait(ctx, l.Rank)
		if err != nil || told&FlagDone != 0 {
			return err
		}
		if err := l.Send(ctx); err != nil {
			return err
		}
		flags := message.Flags(0)
		for _, k := range l.w.links {
			f, err := onAnswer.Recv(ctx, l.Rank, k.rank)
			if err != nil {
				return fmt.Errorf("worker %d, receipt of server %d: %w", l.rank, k.id, err)
			}
			if f.Word.Code == codeRejected {
				return fmt.Errorf("worker %d: server %d refused the push: %s", l.rank, k.id, f.Body)
			}
			flags |= f.Flags
			f.Release()
		}
		if err := onPushed.Wake(ctx, l.Rank, message.Nothing{}, flags); err != nil {
			return err
		}
	}
}

// fetchActivity brings parameters from the shards.
func (l *Links) fetchActivity(ctx context.Context, _ comm.Host) error {
	for {
		wish, told, err := onPaced.Wait(ctx, l.Rank)
		if err != nil || told&FlagDone != 0 {
			return err
		}
		for _, k := range l.w.links {
			wish.Shard = k.id
			if err := OnPull.Send(ctx, l.Rank, k.rank, wish, 0); err != nil {
				return err
			}
		}
		flags := message.Flags(0)
		for _, k := range l.w.links {
			f, err := onFetched.Recv(ctx, l.Rank, k.rank)
			if err != nil {
				return fmt.Errorf("worker %d, fetch from server %d: %w", l.rank, k.id, err)
			}
			if f.Flags&flagMore != 0 {
				f.Release()
				return fmt.Errorf("worker %d: server %d sends its shard in parts, and who fetches beside takes it whole: claim PerPush in the Traits of mode %s", l.rank, k.id, Modes.Spec(l.job.Mode))
			}
			flags |= f.Flags
			k.fetched = f.Frame
		}
		if err := onBrought.Wake(ctx, l.Rank, message.Nothing{}, flags); err != nil {
			return err
		}
	}
}
