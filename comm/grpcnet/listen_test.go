package grpcnet

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// P7: beyond the own machine there is no plain text, unless asked for: without a token
// to make certificates of, no listening either.
func TestNonLoopbackIsRefused(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		c := quick(1, 0)
		c.Listen, c.Token = addr, ""
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "plain text") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	c := quick(1, 0)
	c.Listen, c.Insecure, c.Token = "0.0.0.0:0", true, ""
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	c = quick(2, 1)
	c.Coordinator, c.Token = "192.0.2.1:7", ""
	n, err = New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context(), all(1, idle)); err == nil || !strings.Contains(err.Error(), "plain text") {
		t.Error(err)
	}
}

// F24: a port in use is an error at once, and the one who has it goes on.
func TestF24PortInUse(t *testing.T) {
	a, err := New(quick(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c := quick(1, 0)
	c.Listen = a.Addr()
	_, err = New(c)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), a.Addr()) {
		t.Error(err)
	}
	if err := a.Run(t.Context(), all(1, idle)); err != nil {
		t.Error(err)
	}
}

func TestBadConfigurations(t *testing.T) {
	for want, c := range map[string]Config{
		"world of 0":                {Ranks: []int{0}},
		"at least one rank":         {World: 1},
		"rank 2 is not in 0 … 1":    {World: 2, Ranks: []int{2}},
		"rank 0 is given twice":     {World: 2, Ranks: []int{0, 0}},
		`field "a" is given twice`:  {World: 1, Ranks: []int{0}, Identity: []Field{{Name: "a"}, {Name: "a"}}},
		"shorter than two":          {World: 1, Ranks: []int{0}, Heartbeat: 9, Lease: 10},
		"JoinTimeout of -1ns":       {World: 1, Ranks: []int{0}, JoinTimeout: -1},
		"MaxFrame -1":               {World: 1, Ranks: []int{0}, MaxFrame: -1},
		`cannot listen on "nowher`:  {World: 1, Ranks: []int{0}, Listen: "nowhere"},
		"cannot listen on \"1.2.3.": {World: 1, Ranks: []int{0}, Listen: "1.2.3.4.5:0"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// What a process advertises may leave out the port, which the listener then says.
func TestAdvertised(t *testing.T) {
	for _, c := range []struct{ advertise, listener, want string }{
		{"", "10.0.0.1:7", "10.0.0.1:7"}, {"h", "10.0.0.1:7", "h:7"}, {"h:0", "10.0.0.1:7", "h:7"}, {"h:9", "10.0.0.1:7", "h:9"},
		{"fd00::1", "[::]:7", "[fd00::1]:7"}, {"[fd00::1]", "[::]:7", "[fd00::1]:7"}, {"[fd00::1]:9", "[::]:7", "[fd00::1]:9"},
	} {
		if got := (&Config{Advertise: c.advertise}).advertised(c.listener); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
