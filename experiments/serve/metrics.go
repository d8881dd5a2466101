package serve

import (
	"github.com/prometheus/client_golang/prometheus"
)

// gauge is one figure of a run.
type gauge struct {
	desc *prometheus.Desc
	get  func(Row) (float64, bool)
}

func newGauge(name, help string, get func(Row) (float64, bool)) gauge {
	return gauge{prometheus.NewDesc("gradlab_run_"+name, help, []string{"run", "recipe", "name"}, nil), get}
}

func known(f func(Row) float64) func(Row) (float64, bool) {
	return func(r Row) (float64, bool) { return f(r), true }
}

// collector tells of every run that is watched, at the moment it is asked.
type collector struct {
	watch  *Watch
	state  *prometheus.Desc
	gauges []gauge
}

// metrics is a registry of what a watch knows.
func metrics(w *Watch) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{
		watch: w,
		state: prometheus.NewDesc("gradlab_run_state", "1 for the state the run is in.", []string{"run", "recipe", "name", "state"}, nil),
		gauges: []gauge{
			newGauge("updates", "Updates made so far.", known(func(r Row) float64 { return float64(r.Step) })),
			newGauge("epochs", "Passes over the training set so far.", known(func(r Row) float64 { return r.Epoch })),
			newGauge("clock_seconds", "Time on the run's clock, virtual on net=sim.", known(func(r Row) float64 { return r.Seconds })),
			newGauge("training_loss", "Mean training loss since the report before.", known(func(r Row) float64 { return r.Loss })),
			newGauge("learning_rate", "Learning rate.", known(func(r Row) float64 { return r.LR })),
			newGauge("staleness", "Mean staleness since the report before, in updates.", known(func(r Row) float64 { return r.Staleness })),
			newGauge("network_bytes", "Bytes that had crossed the network at the last evaluation.", known(func(r Row) float64 { return r.Bytes })),
			newGauge("reported_timestamp_seconds", "When the run told something for the last time.", known(func(r Row) float64 { return float64(r.Updated.UnixMilli()) / 1e3 })),
			newGauge("accuracy", "Test accuracy at the last evaluation.", func(r Row) (float64, bool) {
				if r.Accuracy == nil {
					return 0, false
				}
				return *r.Accuracy, true
			}),
		},
	})
	return r
}

// Describe tells which metrics there are.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	for _, g := range c.gauges {
		out <- g.desc
	}
}

// Collect tells their values.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	rows, _, _, _ := c.watch.Rows(0)
	for _, r := range rows {
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, r.Key, r.Recipe, r.Name, r.State)
		for _, g := range c.gauges {
			if v, ok := g.get(r); ok {
				out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v, r.Key, r.Recipe, r.Name)
			}
		}
	}
}
