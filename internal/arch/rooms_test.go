package arch

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages of the engine, lowest first. A room imports rooms of lower levels
// alone, none of its own.
var rooms = [][]string{
	{"sgd/train/checkpoint", "sgd/train/message", "sgd/train/record", "sgd/train/timing"},
	{"sgd/train/wire"},
	{"sgd/train/compute"},
	{"sgd/train"},
	{"sgd/train/gossip", "sgd/train/mean", "sgd/train/replicas", "sgd/train/sandblaster"},
	{"sgd/train/traintest", "sgd/train/timing/timingtest"},
}

// undocumented are rooms without a doc.go that tells the life of their main object. The list
// may only shrink.
var undocumented = []string{"sgd/train", "sgd/train/gossip", "sgd/train/replicas", "sgd/train/sandblaster",
	"sgd/train/timing", "sgd/train/timing/timingtest", "sgd/train/traintest"}

// climbing lists the imports between rooms that do not go down, and rooms without a level.
func climbing(levels [][]string, used map[string][]string) (out []string) {
	level := map[string]int{}
	for i, list := range levels {
		for _, room := range list {
			level[room] = i
			if _, there := used[room]; !there {
				out = append(out, room+" has a level, and is no package")
			}
		}
	}
	for _, room := range slices.Sorted(maps.Keys(used)) {
		at, known := level[room]
		if !known {
			if strings.HasPrefix(room+"/", "sgd/train/") {
				out = append(out, room+" is a room without a level")
			}
			continue
		}
		for _, path := range used[room] {
			own := strings.TrimPrefix(path, module+"/")
			if to, ok := level[own]; ok && to >= at {
				out = append(out, room+" imports "+own+", which is no lower room")
			}
		}
	}
	return out
}

func TestRoomsImportDownwards(t *testing.T) {
	t.Parallel()
	for _, c := range climbing(rooms, imports(sources(t))) {
		t.Error(c)
	}
}

func TestClimbingIsFound(t *testing.T) {
	t.Parallel()
	own := func(p string) []string { return []string{module + "/" + p, "example.org/x"} }
	levels := [][]string{{"sgd/train/a", "sgd/train/b"}, {"sgd/train"}}
	for want, used := range map[string]map[string][]string{
		"": {"sgd/train": own("sgd/train/a"), "sgd/train/a": nil, "sgd/train/b": own("sgd")},
		"sgd/train/a imports sgd/train, which is no lower room":   {"sgd/train": nil, "sgd/train/a": own("sgd/train"), "sgd/train/b": nil},
		"sgd/train/a imports sgd/train/b, which is no lower room": {"sgd/train": nil, "sgd/train/a": own("sgd/train/b"), "sgd/train/b": nil},
		"sgd/train/c is a room without a level":                   {"sgd/train": nil, "sgd/train/a": nil, "sgd/train/b": nil, "sgd/train/c": nil},
		"sgd/train/b has a level, and is no package":              {"sgd/train": nil, "sgd/train/a": nil},
	} {
		if got := strings.Join(climbing(levels, used), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRoomsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, room := range slices.Concat(rooms...) {
		_, err := os.Stat(filepath.Join(root(t), filepath.FromSlash(room), "doc.go"))
		switch exempt := slices.Contains(undocumented, room); {
		case err != nil && !exempt:
			t.Errorf("%s has no doc.go that tells the life of its main object", room)
		case err == nil && exempt:
			t.Errorf("%s has a doc.go; take it out of the exceptions", room)
		}
	}
}
