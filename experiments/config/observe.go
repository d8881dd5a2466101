package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/registry"
)

// Words of key observe: what a run records of itself beside its evaluations.
const (
	Gap        = "gap"
	NoiseScale = "noise_scale"
	OrderLog   = "order_log"
	Trace      = "trace"
)

// noneObserved is the value of key observe of a run that records nothing more.
const noneObserved = "none"

var observations = []registry.Entry{
	{Name: Gap, About: "servers measure how far the parameters have moved since a gradient was made; costs a copy of them an update"},
	{Name: NoiseScale, About: "the gradient noise scale (McCandlish et al. 2018, appendix A.1), in samples: about how large a batch still pays; runs in step with codecs that send every value"},
	{Name: OrderLog, About: "the order in which gradients reach servers, for gradlab replay"},
	{Name: Trace, About: "who computes, waits and sends: trace.json.gz, for ui.perfetto.dev, and timeline.svg in the run folder; no more than the first 1,048,576 spans and frames, in the picture the first 4,000, of 64 ranks; net=sim only"},
}

// Observations returns the words that key observe may list, for listings.
func Observations() []registry.Entry {
	out := slices.Clone(observations)
	for i := range out {
		out[i].Spec = out[i].Name
	}
	return out
}

func observationNames() (names []string) {
	for _, o := range observations {
		names = append(names, o.Name)
	}
	return names
}

// observed is the words of a value of key observe, in the order of observations.
type observed []string

// parseObserved reads none, one word, or several in square brackets: [gap,trace].
func parseObserved(text string) (observed, error) {
	inner := strings.TrimSpace(text)
	if inner == noneObserved {
		return nil, nil
	}
	if list, ok := strings.CutPrefix(inner, "["); ok {
		if inner, ok = strings.CutSuffix(list, "]"); !ok {
			return nil, fmt.Errorf("want none, or a list in square brackets, such as [%s,%s], not %q", Gap, Trace, text)
		}
	}
	all := observationNames()
	given := map[string]bool{}
	for _, word := range strings.Split(inner, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == noneObserved:
			return nil, errors.New("want none alone, or words without it")
		case !slices.Contains(all, word):
			return nil, fmt.Errorf("want none, or a list such as [%s,%s], with nothing named %q in it; %s", Gap, Trace, word, registry.Suggest(word, all))
		case given[word]:
			return nil, fmt.Errorf("want every word once, and %s is listed twice", word)
		}
		given[word] = true
	}
	return slices.DeleteFunc(all, func(word string) bool { return !given[word] }), nil
}

// String returns the text that parseObserved reads.
func (o observed) String() string {
	if len(o) == 0 {
		return noneObserved
	}
	return "[" + strings.Join(o, ",") + "]"
}

// has reports whether a word is listed.
func (o observed) has(word string) bool { return slices.Contains(o, word) }
