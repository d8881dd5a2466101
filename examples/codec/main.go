// Command coin is gradlab with one more codec in it:
//
//	go run . list codecs
//	go run . codec check 'coin(p=0.75)'
//	go run . run quickstart 'codec=coin(p=0.75)'
package main

import (
	"os"

	_ "example.org/coin/coin"
	"github.com/gradlab/gradlab/experiments/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
