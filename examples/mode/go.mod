module example.org/mode

go 1.26.0

require github.com/gradlab/gradlab v0.0.0

require (
	github.com/klauspost/compress v1.20.3 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

replace github.com/gradlab/gradlab => ../..
