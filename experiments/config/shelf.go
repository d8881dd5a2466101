package config

import (
	"sync"

	"github.com/gradlab/gradlab/sgd"
)

// Shelf keeps data sets that were opened, for the runs that come after: reading
// and decoding one may take longer than a short run. The zero value is empty, nil
// keeps nothing. Runs may share one, at the same time too.
type Shelf struct {
	mu   sync.Mutex
	sets map[shelved]func() (sgd.Dataset, error)
}

// shelved is what tells data sets apart.
type shelved struct {
	data        string
	train, test int
	augment     bool
	seed        uint64 // of shuffling and augmentation
	unreadable  float64
	validation  float64
}

// get returns the data set of a configuration, from the shelf if it is there.
func (s *Shelf) get(c Config, open func() (sgd.Dataset, error)) (sgd.Dataset, error) {
	if s == nil {
		return open()
	}
	k := shelved{c.Data, c.TrainLimit, c.TestLimit, c.Augment, c.Seed, c.Unreadable, c.Validation}
	s.mu.Lock()
	once := s.sets[k]
	if once == nil {
		if s.sets == nil {
			s.sets = map[shelved]func() (sgd.Dataset, error){}
		}
		once = sync.OnceValues(open)
		s.sets[k] = once
	}
	s.mu.Unlock()
	return once()
}
