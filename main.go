// Command gradlab trains models over many workers and tells what the mix of
// optimizer, staleness rule, codec, topology and schedule costs in accuracy,
// time and bytes. See README.md.
package main

import (
	"os"

	"github.com/gradlab/gradlab/experiments/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
