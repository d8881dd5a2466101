package checkpoint

import "strconv"

// Names that a Keeper knows by itself.
const (
	KeyStep   = "step"   // of a worker: steps it has made; a worker without one was dead
	KeyCodecs = "codec/" // what codecs keep
)

// Key is the name in a checkpoint of what belongs to ranks, shards or steps: their
// numbers behind a name of the mode's own.
func Key(name string, of ...int) string {
	for _, i := range of {
		name += "/" + strconv.Itoa(i)
	}
	return name
}

// Under is Key for what has a name of its own behind it.
func Under(name string, of ...int) string { return Key(name, of...) + "/" }
