package sweep

import "github.com/gradlab/gradlab/experiments/store"

// Missing splits jobs into those to run and, by id, the runs of those that are
// done already, whoever made them.
func Missing(jobs []Job, past []*store.Run) (todo []Job, done map[string]*store.Run) {
	there := map[string]*store.Run{}
	for _, r := range past {
		if r.State == store.Done && r.Result != nil && len(r.Foreign) == 0 {
			there[r.ID] = r
		}
	}
	done = map[string]*store.Run{}
	for _, j := range jobs {
		if r := there[j.ID]; r != nil {
			done[j.ID] = r
		} else {
			todo = append(todo, j)
		}
	}
	return todo, done
}
