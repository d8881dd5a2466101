package hardware

// Node is how the devices of one host reach each other and its NIC: keys of a
// configuration, each with a value, a spread and its source. network.inside is what a device
// sends and receives of a ring over few of them (busbw of nccl-tests), network.bridge what
// all of them together do.
type Node struct {
	Name   string      `yaml:"-"`
	About  string      `yaml:"about"`
	Source string      `yaml:"source"` // of the keys that name none
	Keys   []Parameter `yaml:"keys"`
}

// Nodes lists what there is. One of them is Unknown.
func Nodes() []string { return names("nodes") }

// LoadNode reads a node by name.
func LoadNode(name string) (*Node, error) {
	n := &Node{Name: name}
	if err := load("node", name, n); err != nil {
		return nil, err
	}
	if err := checkParameters("node "+name, n.Keys); err != nil {
		return nil, err
	}
	return n, nil
}
