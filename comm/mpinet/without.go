//go:build !mpi

package mpinet

import (
	"context"

	"github.com/gradlab/gradlab/comm"
)

// Built says whether this program was built with MPI.
const Built = false

// Net is this process's part of a run.
type Net struct{}

var _ comm.Net = (*Net)(nil)

// Start is ErrWithout.
func Start() (World, error) { return World{}, ErrWithout }

// End does nothing.
func End() {}

// New is ErrWithout, once the configuration is one.
func New(c Config) (*Net, error) {
	if err := c.complete(len(c.Ranks)); err != nil {
		return nil, err
	}
	return nil, ErrWithout
}

// Run is ErrWithout.
func (*Net) Run(context.Context, []comm.Program) error { return ErrWithout }

// Carried is nothing.
func (*Net) Carried() comm.Carried { return comm.Carried{} }
