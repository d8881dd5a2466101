package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/comm/mpinet"
)

// The sections of Wire.
const (
	SectionAllReduce = "allreduce"
	SectionStream    = "stream"
	SectionStep      = "step"
)

// Sections lists them.
func Sections() []string { return []string{SectionAllReduce, SectionStream, SectionStep} }

// LinksTLS has ours talk over TCP under TLS, as between hosts, by certificates made for it.
const LinksTLS grpcnet.Links = "tls"

// LinksMPI has ours talk through MPI, as net=mpi does, in processes that mpirun starts.
const LinksMPI grpcnet.Links = "mpi"

// WireOptions say what Wire measures, between processes of this machine.
type WireOptions struct {
	Sections []string
	Procs    []int           // all-reduce: sizes of groups
	Sizes    []int           // all-reduce: bytes of a vector, multiples of 4
	Links    []grpcnet.Links // what ours move frames through
	Topology string          // all-reduce: spec text of ours
	Codecs   []string        // step: spec texts
	Torch    *Torch          // for gloo; nil: without
	OpenMPI  *OpenMPI        // nil: without
	Rounds   int
	Seconds  float64 // of a block: one contender in one round

	Self    []string // how to start a rank of ours: a program and its arguments
	Environ []string // of such a process
	Command []string
	Logf    func(format string, args ...any) // hears how it goes
}

// WireReport is everything Wire found out.
type WireReport struct {
	Command    []string       `json:"command"`
	Machine    Machine        `json:"machine"`
	Peers      []string       `json:"peers,omitempty"` // with their versions
	AllReduces []AllReduceRow `json:"all_reduces,omitempty"`
	Streams    []StreamRow    `json:"streams,omitempty"`
	RoundTrips []RoundTripRow `json:"round_trips,omitempty"`
	Steps      []StepRow      `json:"steps,omitempty"`
}

// Check refuses what cannot be measured.
func (o *WireOptions) Check() error {
	for _, s := range o.Sections {
		if !slices.Contains(Sections(), s) {
			return fmt.Errorf("no section %q; there are %v", s, Sections())
		}
	}
	for _, n := range o.Procs {
		if n < 2 || n > 64 {
			return fmt.Errorf("procs is %d, want 2 to 64", n)
		}
	}
	for _, b := range o.Sizes {
		if b < 4 || b%4 != 0 || b > 1<<30 {
			return fmt.Errorf("a vector of %d bytes: want a multiple of 4 up to 1 GB", b)
		}
	}
	for _, l := range o.Links {
		if known := []grpcnet.Links{grpcnet.LinksTCP, LinksTLS, grpcnet.LinksGRPC, grpcnet.LinksSHM, LinksMPI}; !slices.Contains(known, l) {
			return fmt.Errorf("links is %q, want one of %v", l, known)
		}
		if l == LinksMPI && !mpinet.Built {
			return mpinet.ErrWithout
		}
	}
	if len(o.Sections)*len(o.Procs)*len(o.Sizes)*len(o.Links)*len(o.Codecs) == 0 {
		return errors.New("nothing to measure: name at least one section, number of processes, size, link and codec")
	}
	if _, err := collective.Topologies.Parse(o.Topology); err != nil {
		return err
	}
	if o.Rounds < 1 || !(o.Seconds > 0 && o.Seconds <= maxSeconds) {
		return fmt.Errorf("%d rounds of %g seconds: want at least one, of more than 0 seconds", o.Rounds, o.Seconds)
	}
	return nil
}

// Wire measures all-reduces, streams and training steps between processes, beside
// the peers that are given, in turns. What fails is left out and told in the
// error, beside the report of all the rest; the end of ctx ends it with what was
// complete.
func Wire(ctx context.Context, o WireOptions) (*WireReport, error) {
	r := &WireReport{Command: o.Command, Machine: ThisMachine()}
	var failed []error
	for _, s := range o.Sections {
		switch s {
		case SectionAllReduce:
			for _, n := range o.Procs {
				failed = append(failed, o.allReduces(ctx, r, n))
			}
		case SectionStream:
			failed = append(failed, o.streams(ctx, r))
		case SectionStep:
			failed = append(failed, o.steps(ctx, r))
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
	return r, errors.Join(failed...)
}

// know notes a peer that took part.
func (r *WireReport) know(peer string) {
	if !slices.Contains(r.Peers, peer) {
		r.Peers = append(r.Peers, peer)
	}
}

// cores is how many a process of a group of n may use.
func cores(n int) int { return max(1, runtime.NumCPU()/n) }

// ParseSize reads bytes: a number, or one with KB or MB behind it, of 1024.
func ParseSize(text string) (int, error) {
	number, unit := text, 1
	for suffix, u := range map[string]int{"KB": 1 << 10, "MB": 1 << 20} {
		if s, ok := strings.CutSuffix(strings.ToUpper(text), suffix); ok {
			number, unit = s, u
		}
	}
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > (1<<30)/unit {
		return 0, fmt.Errorf("a size of %q: want bytes, or KB or MB behind a number, up to 1024MB", text)
	}
	return n * unit, nil
}
