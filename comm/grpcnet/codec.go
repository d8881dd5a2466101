package grpcnet

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// rawCodec passes bytes through: messages are parcels or mem.BufferSlice,
// received ones come with a reference that the receiver frees.
type rawCodec struct{}

func (rawCodec) Name() string { return "gradlab-raw" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *parcel:
		return m.all, nil
	case mem.BufferSlice:
		return m, nil
	}
	return nil, fmt.Errorf("grpcnet: cannot send a %T", v)
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(*mem.BufferSlice)
	if !ok {
		return fmt.Errorf("grpcnet: cannot receive into a %T", v)
	}
	data.Ref()
	*p = data
	return nil
}

// stream is what both ends of a gRPC stream have in common.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// sendBytes sends one message of its own bytes; b must not change afterwards.
func sendBytes(s stream, b []byte) error {
	return s.SendMsg(mem.BufferSlice{mem.SliceBuffer(b)})
}

// recvBytes receives one message.
func recvBytes(s stream) ([]byte, error) {
	var m mem.BufferSlice
	if err := s.RecvMsg(&m); err != nil {
		return nil, err
	}
	defer m.Free()
	return m.Materialize(), nil
}
