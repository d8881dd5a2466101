package reproduce

import (
	"fmt"
	"slices"
)

// Group is a name for studies of one subject.
type Group struct {
	Name, Doc string
	Studies   []string
}

// Groups are all of them; every study is in one.
var Groups = []Group{
	{"codecs", "what codecs send, and lose", []string{"codec-error", "ef-divergence", "grace-bytes"}},
	{"scaling", "published tables of scaling, on the virtual cluster", []string{"tf-ps", "ddl", "goyal-time", "horovod", "imagenet-table", "gcp-mnist", "osu", "emulated",
		"dutta-runtime", "ps-vs-ring", "advisor"}},
	{"asynchrony", "staleness, stragglers, elastic and local steps", []string{"softsync", "rudra-tradeoff", "downpour", "dutta-error-runtime", "backup-workers", "ssp", "dc-asgd", "dana",
		"easgd-tau", "slow-node", "local-sgd"}},
}

// Named are the studies that names stand for, each once: studies with their
// options, groups, and "all". The error says which name is none of them.
func Named(names ...string) ([]string, error) {
	var out []string
	for _, name := range names {
		members := []string{name}
		if name == "all" {
			members = Studies.Names()
		} else if i := slices.IndexFunc(Groups, func(g Group) bool { return g.Name == name }); i >= 0 {
			members = Groups[i].Studies
		} else if _, err := Studies.Parse(name); err != nil {
			return nil, fmt.Errorf("%w; or a group of studies: %s, all", err, groupNames())
		}
		for _, m := range members {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out, nil
}

func groupNames() string {
	s := ""
	for i, g := range Groups {
		if i > 0 {
			s += ", "
		}
		s += g.Name
	}
	return s
}
