package experiments

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// tfConfig is the content of TF_CONFIG, by which TensorFlow's launchers tell a
// process of its cluster.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"` // addresses by kind of task
	Task    struct {
		Type  string          `json:"type"`
		Index json.RawMessage `json:"index"` // a number, or one in quotes
	} `json:"task"`
}

// whoInTFConfig takes the rank from TF_CONFIG: the chief and the workers are gradlab's
// workers, in this order, and the parameter servers follow. The first of them
// coordinates, at its own address.
func whoInTFConfig(text, coordinator string) (Who, error) {
	var c tfConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Who{}, fmt.Errorf("TF_CONFIG is no JSON object with cluster and task: %w", err)
	}
	at := cmp.Or(string(c.Task.Index), "0")
	index, err := strconv.Atoi(strings.Trim(at, `"`))
	if err != nil && c.Task.Type != "evaluator" {
		return Who{}, fmt.Errorf("TF_CONFIG: the index of task %q is %s, want a whole number", c.Task.Type, at)
	}
	w := Who{Rank: -1, Coordinator: coordinator, Source: "TF_CONFIG"}
	for _, kind := range []string{"chief", "master", "worker", "ps"} {
		for i, addr := range c.Cluster[kind] {
			if w.World == 0 && w.Coordinator == "" {
				w.Coordinator = addr
			}
			if kind == c.Task.Type && i == index {
				w.Rank = w.World
			}
			w.World++
		}
	}
	if c.Task.Type == "evaluator" {
		return Who{}, fmt.Errorf("TF_CONFIG says that this process is the evaluator: gradlab evaluates in the process of rank 0, so start none")
	}
	if w.Rank < 0 {
		return Who{}, fmt.Errorf("TF_CONFIG says that this process is task %s %d, which its cluster does not have: want one of chief, worker and ps", c.Task.Type, index)
	}
	if _, _, err := net.SplitHostPort(w.Coordinator); err != nil {
		return Who{}, fmt.Errorf("TF_CONFIG: the address of the first task is %q, want host:port", w.Coordinator)
	}
	w.Lead = w.Rank == 0
	return w, nil
}
