package experiments

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments/config"
)

// leadAt is where the coordinating process listens, given what all ranks may be
// told: --listen and the address at which the coordinator is reached. The port is the
// coordinator's, unless --listen names one. The host is that of --listen, or else
// the coordinator's where that is an address of this machine; where it is not, as
// behind a service, or a name that is not known yet, it is every address of it.
func leadAt(listen, coordinator string) (string, error) {
	host, port, err := net.SplitHostPort(coordinator)
	if err != nil {
		return "", &config.Error{Err: fmt.Errorf("the coordinator's address is %q, want host:port", coordinator)}
	}
	if listen != "" {
		h, p, err := net.SplitHostPort(listen)
		if err != nil {
			return "", &config.Error{Err: fmt.Errorf("--listen is %q, want host:port; port 0 is any free one, and the coordinator's at rank 0", listen)}
		}
		if p == "0" || p == "" {
			p = port
		}
		return net.JoinHostPort(h, p), nil
	}
	if grpcnet.OnLoopback(coordinator) {
		return coordinator, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ips, _ := net.DefaultResolver.LookupIPAddr(ctx, host)
	if len(ips) == 1 && !ips[0].IP.IsLoopback() && isOwn(ips[0].IP) {
		return net.JoinHostPort(ips[0].String(), port), nil
	}
	return net.JoinHostPort("", port), nil
}

// isOwn says whether an interface of this machine has the address.
func isOwn(ip net.IP) bool {
	as, _ := net.InterfaceAddrs()
	for _, a := range as {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// threads is how many cores this rank uses: what the key says; or what the launcher
// granted it; or its share, where the launcher says how many ranks the host has. 0: all
// that it may.
func (w Who) threads(key int, getenv func(string) string) int {
	switch may := runtime.GOMAXPROCS(0); {
	case key > 0:
		return key
	case getenv("GOMAXPROCS") != "": // somebody has decided
		return 0
	case w.CPUs > 0:
		return min(w.CPUs, may)
	case w.Local > 1:
		return share(w.Local, may, cores(), w.Binds)
	}
	return 0
}

// share is the cores of one of local ranks of a host of so many cores, on may of which
// this process may run. A launcher that binds has given it its own already, unless
// these are all there are; one that does not has the ranks share them.
func share(local, may, cores int, binds bool) int {
	if binds {
		return max(1, min(may, cores/local))
	}
	return max(1, may/local)
}

// cores is the number of this machine's cores, of all processes.
func cores() int {
	b, err := os.ReadFile("/sys/devices/system/cpu/online") // as "0-3,8-11"
	if err != nil {
		return runtime.NumCPU()
	}
	n := 0
	for _, part := range strings.Split(strings.TrimSpace(string(b)), ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return runtime.NumCPU()
		}
		last := first
		if ranged {
			if last, err = strconv.Atoi(to); err != nil {
				return runtime.NumCPU()
			}
		}
		n += last - first + 1
	}
	return max(n, runtime.NumCPU())
}
