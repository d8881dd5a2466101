package staletest

import (
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/staleness"
)

// Transcript plays a scenario and returns it with the answers filled in. A
// scenario is text, one command a line:
//
//	policy SPEC   workers N   push W   leave W   join W   loss PERCENT
//
// where loss sets the training loss, in percent of what it was at first. policy and workers stand first. Comments (#) and empty lines are kept;
// indented lines are answers of an earlier playing and are replaced.
func Transcript(text string) (string, error) {
	var out strings.Builder
	var spec staleness.Spec
	var s *Server
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if err := play(line, &spec, &s); err != nil {
			return "", fmt.Errorf("line %d, %q: %w", n+1, line, err)
		}
		if s == nil {
			continue
		}
		for _, l := range s.out {
			out.WriteString("    " + l + "\n")
		}
		if v := s.View; s.Pushes > 0 {
			var waiting []int
			for w, x := range v.Waiting {
				if x {
					waiting = append(waiting, w)
				}
			}
			fmt.Fprintf(&out, "    clocks %s", ints(v.Pushed))
			if len(waiting) > 0 {
				fmt.Fprintf(&out, "; %s waiting", ints(waiting))
			}
			out.WriteString("\n")
		}
		s.out = nil
		if err := s.Check(); err != nil {
			return "", fmt.Errorf("line %d, %q: %w", n+1, line, err)
		}
	}
	return out.String(), nil
}

func play(line string, spec *staleness.Spec, s **Server) error {
	verb, arg, _ := strings.Cut(line, " ")
	if verb == "policy" {
		var err error
		*spec, err = staleness.Policies.Parse(arg)
		return err
	}
	var n int
	if _, err := fmt.Sscanf(arg, "%d", &n); err != nil {
		return fmt.Errorf("want a number after %s", verb)
	}
	if verb == "workers" {
		if *spec == nil {
			return fmt.Errorf("which policy?")
		}
		p, err := (*spec).New(n)
		if err == nil {
			*s = NewServer(p, n)
			(*s).talk = true
		}
		return err
	}
	switch {
	case *s == nil:
		return fmt.Errorf("how many workers?")
	case verb == "loss":
		(*s).View.First, (*s).View.Loss = 1, float64(n)/100
	case n < 0 || n >= len((*s).View.Live):
		return fmt.Errorf("there is no worker %d", n)
	case verb == "push" && (*s).Runs(n):
		(*s).Push(n)
	case verb == "leave" && (*s).View.Live[n]:
		(*s).Leave(n)
	case verb == "join" && !(*s).View.Live[n]:
		(*s).Join(n)
	default:
		return fmt.Errorf("worker %d cannot do that now", n)
	}
	return nil
}
