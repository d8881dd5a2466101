package message

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// Channel is one conversation between ranks: messages of a kind, each with a word
// of type W. Channels are made by Say when a program starts and never change.
type Channel[W Word] struct {
	tag  comm.Tag
	kind comm.Kind
	read func(comm.Header) W
}

// A tag is the number of a channel and an index within it: of a shard, a bucket or
// an activity.
const (
	indexBits   = 20
	maxChannels = 1<<10 - 1 // below private tags
)

// channels are the names of all that Say has made; a name's number is its place.
var channels = []string{""}

// Say makes the channel of a name that no other has, for messages of a kind whose
// words read reads. Packages call it for their variables, so that all processes of a
// run number channels alike: they run the same program.
func Say[W Word](name string, kind comm.Kind, read func(comm.Header) W) Channel[W] {
	for _, other := range channels {
		if other == name {
			panic(fmt.Sprintf("message: two channels are called %q", name))
		}
	}
	channels = append(channels, name)
	if len(channels) > maxChannels {
		panic("message: too many channels")
	}
	return Channel[W]{comm.Tag(len(channels)-1) << indexBits, kind, read}
}

// Of is the channel for what is told of the i-th shard, bucket or activity alone.
func (c Channel[W]) Of(i int) Channel[W] {
	c.tag += comm.Tag(i)
	return c
}

// As is the channel for messages of another kind, which are heard on the same one:
// an answer without parameters is billed nothing.
func (c Channel[W]) As(kind comm.Kind) Channel[W] {
	c.kind = kind
	return c
}

// Private is the channel off the way of those who take frames of any tag.
func (c Channel[W]) Private() Channel[W] {
	c.tag = c.tag.Private()
	return c
}

// Tag is the tag of the channel's frames, for those who receive from several.
func (c Channel[W]) Tag() comm.Tag { return c.tag }

// Read reads the word in the header of a frame that came on the channel.
func (c Channel[W]) Read(h comm.Header) W { return c.read(h) }

// Header begins a frame that says w, for those who encode a body behind it.
func (c Channel[W]) Header(of Origin, w W, flags Flags) comm.Header {
	h := of.Stamp()
	h.Kind, h.Tag = c.kind, c.tag
	h = w.Put(h)
	h.Flags = flags
	return h
}

// Send sends a message without a body.
func (c Channel[W]) Send(ctx context.Context, r Speaker, to int, w W, flags Flags) error {
	return r.Host().Send(ctx, to, comm.NewFrame(c.Header(r, w, flags), comm.NewBuffer(0)))
}

// Carry sends a message with a body, of which it takes over one reference.
func (c Channel[W]) Carry(ctx context.Context, r Speaker, to int, w W, flags Flags, body *comm.Buffer) error {
	return r.Host().Send(ctx, to, comm.NewFrame(c.Header(r, w, flags), body))
}

// Open reads the word of a frame that came on the channel.
func (c Channel[W]) Open(f comm.Frame) Mail[W] {
	return Mail[W]{f, c.read(f.Header), int(f.Header.From), f.Header.Flags}
}

// Recv waits for a message of a rank; comm.AnyRank: of any. An error names nobody:
// who waits says for what.
func (c Channel[W]) Recv(ctx context.Context, r Speaker, from int) (Mail[W], error) {
	f, err := r.Host().Recv(ctx, from, c.tag)
	if err != nil {
		return Mail[W]{}, err
	}
	return c.Open(f), nil
}

// Hear is Recv for messages whose body nobody reads.
func (c Channel[W]) Hear(ctx context.Context, r Speaker, from int) (W, Flags, error) {
	m, err := c.Recv(ctx, r, from)
	m.Release()
	return m.Word, m.Flags, err
}

// Wake sends a message to the own rank, whose activities wake each other so.
func (c Channel[W]) Wake(ctx context.Context, r Speaker, w W, flags Flags) error {
	return c.Send(ctx, r, r.ID(), w, flags)
}

// Wait waits for a message of another activity of the own rank.
func (c Channel[W]) Wait(ctx context.Context, r Speaker) (W, Flags, error) {
	return c.Hear(ctx, r, r.ID())
}

// Name is the name of the channel that a tag belongs to, with the index of the shard, bucket
// or activity; of a tag that Say has not given, "".
func Name(t comm.Tag) (name string, index int) {
	n := t & (1<<30 - 1)
	if i := int(n >> indexBits); i < len(channels) {
		return channels[i], int(n & (1<<indexBits - 1))
	}
	return "", 0
}
