package message_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train/message"
)

func TestMain(m *testing.M) { os.Exit(patience.Main(m)) }

// count is a word of one number.
type count int

func (c count) Put(h comm.Header) comm.Header { h.Step = uint64(c); return h }

func readCount(h comm.Header) count { return count(h.Step) }

var onCount = message.Say("test: count", comm.Control, readCount)

// speaker is a rank of run 42.
type speaker struct{ h comm.Host }

func (s speaker) ID() int            { return s.h.Rank() }
func (s speaker) Host() comm.Host    { return s.h }
func (s speaker) Stamp() comm.Header { return comm.Header{Run: 42, Incarnation: 3} }

// A message arrives with its word, its flags, its body, and the stamp of its run, on the
// channel of its index alone.
func TestMessageArrives(t *testing.T) {
	t.Parallel()
	sends := func(ctx context.Context, h comm.Host) error {
		r, body := speaker{h}, comm.NewBuffer(2)
		copy(body.B, "ab")
		if err := onCount.Of(1).Carry(ctx, r, 1, 7, 4, body); err != nil {
			return err
		}
		return onCount.Send(ctx, r, 1, 8, 0)
	}
	receives := func(ctx context.Context, h comm.Host) error {
		r := speaker{h}
		if w, flags, err := onCount.Hear(ctx, r, 0); err != nil || w != 8 || flags != 0 {
			t.Errorf("word %d, flags %d, %v; want 8 and 0", w, flags, err)
		}
		m, err := onCount.Of(1).Recv(ctx, r, comm.AnyRank)
		if err != nil {
			return err
		}
		defer m.Release()
		x := m.Header
		if m.Word != 7 || m.Flags != 4 || m.From != 0 || string(m.Body) != "ab" || x.Run != 42 || x.Incarnation != 3 || x.Tag != onCount.Of(1).Tag() {
			t.Errorf("came as %+v, word %d, flags %d, body %q", x, m.Word, m.Flags, m.Body)
		}
		if got := onCount.Read(x); got != 7 {
			t.Errorf("the header reads as %d", got)
		}
		if err := onCount.Wake(ctx, r, 9, 1); err != nil {
			return err
		}
		if w, flags, err := onCount.Wait(ctx, r); err != nil || w != 9 || flags != 1 {
			t.Errorf("another activity says %d with flags %d, %v; want 9 and 1", w, flags, err)
		}
		return nil
	}
	if err := (&local.Net{}).Run(t.Context(), []comm.Program{sends, receives}); err != nil {
		t.Fatal(err)
	}
}

// As and Private change the kind and the tag of a copy, and leave the channel alone.
func TestChannelsAreCopied(t *testing.T) {
	t.Parallel()
	r := speaker{}
	if h := onCount.As(comm.Gradient).Header(r, 1, 0); h.Kind != comm.Gradient || h.Tag != onCount.Tag() {
		t.Errorf("As: %+v", h)
	}
	if p := onCount.Private(); p.Tag() == onCount.Tag() || onCount.Header(r, 1, 0).Kind != comm.Control {
		t.Errorf("Private has tag %d, the channel %d", p.Tag(), onCount.Tag())
	}
}

// A tag tells its channel and index, private or not, and one that is nobody's tells nothing.
func TestNamesOfTags(t *testing.T) {
	t.Parallel()
	for tag, want := range map[comm.Tag]string{
		onCount.Tag(): "test: count", onCount.Of(7).Tag(): "test: count", onCount.Private().Tag(): "test: count", 1<<30 - 1: "", 0: "",
	} {
		if name, _ := message.Name(tag); name != want {
			t.Errorf("tag %d is of channel %q, want %q", tag, name, want)
		}
	}
	if _, i := message.Name(onCount.Of(7).Private().Tag()); i != 7 {
		t.Errorf("index %d, want 7", i)
	}
}

func TestNamesOfChannelsDiffer(t *testing.T) {
	t.Parallel()
	defer func() {
		if why, _ := recover().(string); !strings.Contains(why, `two channels are called "test: count"`) {
			t.Errorf("a second channel of the name: %q", why)
		}
	}()
	message.Say("test: count", comm.Control, readCount)
}
