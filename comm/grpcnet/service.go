package grpcnet

import "google.golang.org/grpc"

// methods is what a process serves. Both are bidirectional streams of raw
// messages, so one description does for servers and clients.
type methods interface {
	acceptJoin(grpc.ServerStream) error
	acceptLink(grpc.ServerStream) error
}

const serviceName = "gradlab.Link"

var (
	joinDesc   = grpc.StreamDesc{StreamName: "Join", ServerStreams: true, ClientStreams: true, Handler: serveJoin}
	framesDesc = grpc.StreamDesc{StreamName: "Frames", ServerStreams: true, ClientStreams: true, Handler: serveFrames}

	service = grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*methods)(nil),
		Streams:     []grpc.StreamDesc{joinDesc, framesDesc},
	}
)

func serveJoin(srv any, s grpc.ServerStream) error   { return srv.(methods).acceptJoin(s) }
func serveFrames(srv any, s grpc.ServerStream) error { return srv.(methods).acceptLink(s) }
