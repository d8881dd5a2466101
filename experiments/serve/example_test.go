package serve_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/gradlab/gradlab/experiments/serve"
)

// The server is a handler: it can be mounted anywhere, and answers on loopback
// hosts only.
func Example() {
	w := serve.NewWatch("../store/testdata/runs")
	w.Refresh()
	s := serve.New(w, "token")
	for _, host := range []string{"localhost:7788", "example.com"} {
		r := httptest.NewRequest("GET", "/api/runs", nil)
		r.Host = host
		r.Header.Set("X-Gradlab-Token", "token")
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		fmt.Println(host, answer.Code)
	}
	rows, _, _, _ := w.Rows(0)
	fmt.Println(len(rows), "runs")
	// Output:
	// localhost:7788 200
	// example.com 421
	// 6 runs
}
