package experiments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// Weights encodes the final parameters of the run in folder as a safetensors file
// with the names and shapes of its model, PyTorch's where it is a network: see sgd.Portable.
func Weights(folder string) ([]byte, error) {
	_, m, err := recordedModel(folder)
	if err != nil {
		return nil, err
	}
	params, err := finalParams(folder, m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no final parameters: the run is not over", folder)
	}
	if err != nil {
		return nil, err
	}
	return m.(sgd.Portable).Weights(params)
}

// recordedModel is the configuration of the run in folder, and its model.
func recordedModel(folder string) (*config.Resolved, sgd.Model, error) {
	c, err := readConfig(folder)
	if err != nil {
		return nil, nil, err
	}
	ds, err := RecordedData(folder)
	if err != nil {
		return nil, nil, err
	}
	c.Init, c.Timing = "none", "model" // neither changes what a weight is
	if c.Weightless {
		return nil, nil, fmt.Errorf("%s is a run without weights", folder)
	}
	r, err := c.Resolve()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", folder, err)
	}
	m, err := r.ModelFor(ds.Train)
	return r, m, err
}

// finalParams reads what a run ended with.
func finalParams(folder string, m sgd.Model) ([]float32, error) {
	p, ok := m.(sgd.Portable)
	if !ok {
		return nil, errors.New("its model has no layers whose weights a file could hold")
	}
	path := filepath.Join(folder, "model.safetensors")
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return nil, err
	}
	params := make([]float32, m.Layout().Size())
	if err := p.SetWeights(params, b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return params, nil
}

// Sample writes a prompt and n tokens that the model of the run in folder draws behind it: by
// its final parameters, or those of its last checkpoint. The set that the run has read is
// looked for at the places, as it says what tokens are.
func Sample(w io.Writer, folder string, at config.Places, s sgd.Sampling, prompt string, n int) error {
	r, m, err := recordedModel(folder)
	if err != nil {
		return err
	}
	known, err := RecordedData(folder)
	if err != nil {
		return err
	}
	form := known.Train.Sample()
	scoring, ok := m.(sgd.Scoring)
	if form.Vocabulary == 0 || !ok {
		return fmt.Errorf("%s is no run of a language model: its samples are %v", folder, form)
	}
	params, err := lastParams(folder, m)
	if err != nil {
		return err
	}
	ds, err := r.Open(at, nil)
	switch {
	case err != nil:
		return err
	case ds.Hash != known.Hash:
		return fmt.Errorf("%s: %s is not what the run was trained on, so its tokens may stand for something else", folder, ds.Name)
	case ds.Vocabulary == nil:
		return fmt.Errorf("%s: nobody knows what the tokens of %s stand for", folder, ds.Name)
	}
	tokens, err := ds.Vocabulary.Encode(nil, []byte(prompt))
	if err != nil {
		return fmt.Errorf("prompt %q: %w", prompt, err)
	}
	if _, err := io.WriteString(w, prompt); err != nil {
		return err
	}
	var b []byte
	return s.Continue(scoring, form, params, tokens, n, func(token int32) error {
		b = ds.Vocabulary.Decode(b[:0], token)
		_, err := w.Write(b)
		return err
	})
}

// lastParams are the final parameters of a run or, of one that is not over, those of its last
// checkpoint.
func lastParams(folder string, m sgd.Model) ([]float32, error) {
	params, err := finalParams(folder, m)
	if !errors.Is(err, fs.ErrNotExist) {
		return params, err
	}
	dir := filepath.Join(folder, "checkpoint")
	at, err := countingManifest(dir)
	switch {
	case err != nil:
		return nil, err
	case at == nil:
		return nil, fmt.Errorf("%s is not over, and has no checkpoint yet: checkpoint_every=… makes some", folder)
	}
	path := filepath.Join(dir, filepath.Base(at.File))
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return nil, err
	}
	st, err := checkpoint.Decode(b, m.Layout())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if params = st.Vectors["param"]; len(params) != m.Layout().Size() {
		return nil, fmt.Errorf("%s has no parameters that all share, as of runs whose workers have their own", path)
	}
	return params, nil
}
