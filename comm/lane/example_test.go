//go:build linux

package lane_test

import (
	"fmt"
	"net"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
	"github.com/gradlab/gradlab/comm/tcp"
)

// printer is a link that prints what comes.
type printer struct{ stop, got chan struct{} }

func (p printer) Expects(*comm.Header) error { return nil }
func (p printer) Claim(*comm.Header, int, int, time.Time) (c comm.Claim, ok bool, err error) {
	return c, false, nil // no sink waits
}
func (p printer) Deliver(in *lane.Inbox) error {
	f := in.Take()
	fmt.Printf("frame with tag %d: %s\n", f.Header.Tag, f.Body)
	f.Release()
	return nil
}
func (p printer) Notice(kind byte, b []byte) error {
	fmt.Printf("message %c: %s\n", kind, b)
	close(p.got)
	return nil
}
func (p printer) Sent(comm.Kind, int)      {}
func (p printer) Lost(cause string)        { fmt.Println(cause) }
func (p printer) Stopped() <-chan struct{} { return p.stop }
func (p printer) Ended() <-chan struct{}   { return p.stop }
func (p printer) Sleeps(int)               {}
func (p printer) Asleep() int              { return 0 }

// A frame and a message go over a connection.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	here, err := l.Accept()
	if err != nil {
		panic(err)
	}
	owner := printer{make(chan struct{}), make(chan struct{})}
	end := func(c net.Conn) *lane.Lane {
		p, err := tcp.New(c, c, false, func(int, int) {})
		if err != nil {
			panic(err)
		}
		return lane.New(owner, lane.Socket(p), true, lane.Limits{Frame: 1000, Message: 100, Queue: 1000, Deadline: time.Minute, Lease: time.Minute})
	}
	a, b := end(here), end(there)
	body := comm.NewBuffer(2)
	copy(body.B, "42")
	a.Send(comm.NewFrame(comm.Header{Tag: 7}, body))
	a.Tell([]byte("Bye"))
	go a.Serve()
	received := make(chan struct{})
	go func() { b.Receive(); close(received) }()
	<-owner.got
	close(owner.stop)
	b.Cut()
	<-received
	a.Cut()
	// Output:
	// frame with tag 7: 42
	// message B: ye
}
