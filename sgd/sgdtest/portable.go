package sgdtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/sgd"
)

// Portable checks a model's claim to be sgd.Portable, if it makes one: parameters come back
// from a file with their bits, a model made From it begins with them whatever the seed, and
// what is no such file, or one of other parameters, is refused and changes nothing.
func Portable(m sgd.Model) error {
	p, ok := m.(sgd.Portable)
	if !ok {
		return nil
	}
	size := m.Layout().Size()
	params := noise(size, 1)
	file, err := p.Weights(params)
	if err != nil {
		return err
	}
	back := make([]float32, size)
	if err := p.SetWeights(back, file); err != nil {
		return fmt.Errorf("its own file: %w", err)
	}
	if err := sameBits("read back from a file", back, params); err != nil {
		return err
	}
	if _, err := p.Weights(params[:size-1]); err == nil {
		return errors.New("a vector that is one value short is written to a file")
	}
	for what, b := range map[string][]byte{"an empty file": nil, "a file cut short": file[:len(file)-1], "a file with a byte more": append(slices.Clone(file), 0)} {
		if p.SetWeights(back, b) == nil {
			return fmt.Errorf("%s is taken", what)
		}
		if _, err := p.From(b); err == nil {
			return fmt.Errorf("%s is taken to begin with", what)
		}
		if err := sameBits(what+" was refused, and", back, params); err != nil {
			return err
		}
	}
	if p.SetWeights(back[:size-1], file) == nil {
		return errors.New("a file fills a vector that is one value short")
	}
	from, err := p.From(file)
	if err != nil {
		return err
	}
	if from.Layout().Hash() != m.Layout().Hash() {
		return errors.New("a model that begins with a file has another layout")
	}
	for seed := range uint64(2) {
		clear(back)
		from.Init(back, seed)
		if err := sameBits(fmt.Sprintf("begun with a file, seed %d", seed), back, params); err != nil {
			return err
		}
	}
	return nil
}
