package serve

import (
	"strconv"

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

	workerState *prometheus.Desc
	workerTime  *prometheus.Desc
	workers     []workerGauge
}

// workerGauge is one figure of a worker of a running run.
type workerGauge struct {
	desc *prometheus.Desc
	get  func(Worker) float64
}

var workerLabels = []string{"run", "recipe", "name", "worker"}

func newWorkerGauge(name, help string, get func(Worker) float64) workerGauge {
	return workerGauge{prometheus.NewDesc("gradlab_worker_"+name, help, workerLabels, nil), get}
}

// parts name what Shares are of.
var parts = [...]string{"compute", "encode", "decode", "wire", "wait", "rest"}

// metrics is a registry of what a watch knows.
func metrics(w *Watch) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{
		watch:       w,
		state:       prometheus.NewDesc("gradlab_run_state", "1 for the state the run is in.", []string{"run", "recipe", "name", "state"}, nil),
		workerState: prometheus.NewDesc("gradlab_worker_state", "1 for the state that a worker of a running run is in.", append(workerLabels[:4:4], "state"), nil),
		workerTime:  prometheus.NewDesc("gradlab_worker_time_share", "Share of a worker's time since it told before.", append(workerLabels[:4:4], "part"), nil),
		workers: []workerGauge{
			newWorkerGauge("steps", "Steps the worker has made.", func(w Worker) float64 { return float64(w.Step) }),
			newWorkerGauge("staleness", "Updates that others made between its last two answers.", func(w Worker) float64 { return float64(w.Staleness) }),
			newWorkerGauge("step_rate", "Steps a second of the run's clock since it told before.", func(w Worker) float64 { return w.Rate }),
			newWorkerGauge("told_seconds", "When it told, on the run's clock.", func(w Worker) float64 { return w.Seconds }),
		},
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
	out <- c.workerState
	out <- c.workerTime
	for _, g := range c.workers {
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
	for _, e := range c.watch.all() {
		r := e.row
		for _, w := range e.workers() {
			who := []string{r.Key, r.Recipe, r.Name, strconv.Itoa(w.Rank)}
			out <- prometheus.MustNewConstMetric(c.workerState, prometheus.GaugeValue, 1, append(who[:4:4], w.State)...)
			for i, share := range w.Time {
				out <- prometheus.MustNewConstMetric(c.workerTime, prometheus.GaugeValue, share, append(who[:4:4], parts[i])...)
			}
			for _, g := range c.workers {
				out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.get(w), who...)
			}
		}
	}
}
