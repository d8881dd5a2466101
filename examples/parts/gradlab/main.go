// Command gradlab is gradlab with the parts of package parts in it:
//
//	go run ./gradlab list codecs
//	go run ./gradlab run quickstart 'codec=leftover,shuffle(leftover)' optimizer=ball
package main

import (
	"os"

	_ "example.org/parts"
	"github.com/gradlab/gradlab/experiments/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
