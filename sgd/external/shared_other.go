//go:build !linux

package external

import (
	"errors"

	"github.com/gradlab/gradlab/sgd"
)

func shared(Program, Options) (sgd.Model, error) {
	return nil, errors.New("external: model=external needs Linux, whose shared memory it uses")
}

// CloseAll does nothing here.
func CloseAll() {}
