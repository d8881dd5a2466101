//go:build linux

package tcp_test

import (
	"fmt"
	"net"

	"github.com/gradlab/gradlab/comm/tcp"
)

// Bytes go out from where they lie, and are looked at when they have come.
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
	pipe := func(c net.Conn) *tcp.Pipe {
		p, err := tcp.New(c, c, false, func(sent, read int) {})
		if err != nil {
			panic(err)
		}
		return p
	}
	a, b := pipe(here), pipe(there)
	defer a.Close()
	defer b.Close()

	v := [][]byte{[]byte("head, "), []byte("body")}
	if done, err := a.Push(&v); !done || err != nil {
		panic(err) // there would be Await for that
	}
	for got := 0; got < 10; {
		p, err := b.Look()
		if err != nil {
			panic(err)
		}
		if len(p) == 0 {
			b.Wait()
			continue
		}
		fmt.Print(string(p))
		got += len(p)
		b.Consume(len(p))
	}
	// Output: head, body
}
