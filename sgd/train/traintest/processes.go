package traintest

import (
	"context"
	"errors"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/sgd/train"
)

// processes runs every rank of a job on a net of its own, with a job of its own, over
// loopback: all that ranks of several processes share is what they send.
type processes struct{ job func() (*train.Job, error) }

// Run implements comm.Net. The last program, which holds the observer, is taken as it
// is; the others are made anew.
func (p processes) Run(ctx context.Context, programs []comm.Program) error {
	last := len(programs) - 1
	config := grpcnet.Config{Ranks: []int{last}, World: len(programs), Identity: []grpcnet.Field{{Name: "test", Value: "bits"}},
		Token: "7d1f6c0a94b3e85210fd6ac97e34b5d8", Run: 7}
	lead, err := grpcnet.New(config)
	if err != nil {
		return err
	}
	nets := []*grpcnet.Net{lead}
	defer func() {
		for _, n := range nets {
			n.Close()
		}
	}()
	all := []comm.Program{programs[last]}
	for r := range last {
		j, err := p.job()
		if err != nil {
			return err
		}
		j.Here = 1
		j.Prepare()
		program, err := j.Program(r)
		if err != nil {
			return err
		}
		config.Ranks, config.Coordinator = []int{r}, lead.Addr()
		n, err := grpcnet.New(config)
		if err != nil {
			return err
		}
		nets, all = append(nets, n), append(all, program)
	}
	errs := make([]error, len(nets))
	var ranks sync.WaitGroup
	for i, n := range nets {
		ranks.Go(func() { errs[i] = n.Run(ctx, all[i:i+1]) })
	}
	ranks.Wait()
	return errors.Join(errs...)
}
