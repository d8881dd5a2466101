package config

import (
	"fmt"
	"slices"
	"strings"
)

// NetworkKeys names the keys that say how ranks are connected, whatever they run.
func NetworkKeys() (out []string) {
	for _, k := range Settings() {
		switch k.Name {
		case "cluster", "transport", "node", "topology":
		case "constants.share", "constants.reduce", "constants.message", "constants.stream", "constants.bridge", "constants.model":
			// the others are of the engine's own steps, or of servers
		default:
			if !strings.HasPrefix(k.Name, "network.") {
				continue
			}
		}
		out = append(out, k.Name)
	}
	return out
}

// Connected is a configuration of so many workers on the virtual cluster that texts
// key=value connect, each by one of NetworkKeys.
func Connected(workers int, keys []string) (Config, error) {
	for _, k := range keys {
		name, _, ok := strings.Cut(k, "=")
		if !ok {
			return Config{}, fmt.Errorf("%q: want key=value, such as network.bandwidth=10Gbps", k)
		}
		if !slices.Contains(NetworkKeys(), name) {
			return Config{}, fmt.Errorf("key %q does not say what ranks are connected by; there are %s", name, strings.Join(NetworkKeys(), ", "))
		}
	}
	r, err := ParseRecipe("network", "", []byte("net: sim\nmode: reduce\n"))
	if err != nil {
		return Config{}, err
	}
	runs, err := r.Runs(append([]string{fmt.Sprintf("workers=%d", workers)}, keys...), false)
	if err != nil {
		return Config{}, err
	}
	if len(runs) != 1 {
		return Config{}, fmt.Errorf("%d networks at once; give each key one value", len(runs))
	}
	c := runs[0].Config
	return c, c.Resolve()
}
