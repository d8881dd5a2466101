package config

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// starting is model with the first weights that key init names.
func (c Config) starting(m sgd.Model) (sgd.Model, error) {
	if c.Init == "none" {
		return m, nil
	}
	p, ok := m.(sgd.Portable)
	if !ok {
		return nil, fmt.Errorf("model %s has no layers whose weights a file could hold", c.Model)
	}
	b, err := regular.ReadFile(c.Init, regular.Any)
	if err != nil {
		return nil, fmt.Errorf("the file of first weights cannot be read: %w", err)
	}
	if m, err = p.From(b); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Init, err)
	}
	return m, nil
}
