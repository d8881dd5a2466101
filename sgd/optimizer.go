package sgd

import "github.com/gradlab/gradlab/internal/registry"

// Optimizers holds every update rule by name; see registry for the spec text.
var Optimizers = registry.New[Optimizer]("optimizer")
