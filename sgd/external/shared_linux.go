package external

import (
	"context"
	"sync"

	"github.com/gradlab/gradlab/sgd"
)

// models are those that runs share: a process depends only on what it is sent, so the
// next run of a sweep need not start it again.
var models struct {
	sync.Mutex
	open map[modelKey]*Model
}

// modelKey is what tells models apart.
type modelKey struct {
	program Program
	shape   sgd.Shape
	classes int
}

func shared(p Program, o Options) (sgd.Model, error) {
	models.Lock()
	defer models.Unlock()
	k := modelKey{p, o.Shape, o.Classes}
	if m := models.open[k]; m != nil {
		if m.broken() == nil {
			return m, nil
		}
		m.Close()
		delete(models.open, k)
	}
	m, err := Open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	if models.open == nil {
		models.open = map[modelKey]*Model{}
	}
	models.open[k] = m
	return m, nil
}

// CloseAll ends the processes of every model that Program made. Their runs must have
// ended.
func CloseAll() {
	models.Lock()
	defer models.Unlock()
	for _, m := range models.open {
		m.Close()
	}
	models.open = nil
}
